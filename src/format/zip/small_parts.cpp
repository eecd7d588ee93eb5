#include "format/zip/small_parts.h"

#include <algorithm>
#include <utility>

namespace cairn::zip {
namespace {

constexpr std::size_t kMaxParts = 4096;
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 20;

}  // namespace

bool SmallParts::add(std::uint64_t offset, std::uint64_t size, Use use) {
  parts_.push_back({offset, size, std::move(use)});
  bytes_ += size;
  return (parts_.size() < kMaxParts && bytes_ < kMaxBytes) || flush();
}

bool SmallParts::flush() {
  const std::vector<Part> parts = std::exchange(parts_, {});
  std::vector<std::byte> buffer(std::exchange(bytes_, 0));
  std::vector<ByteSource::Range> ranges;
  ranges.reserve(parts.size());
  std::span<std::byte> left = buffer;
  for (const Part& part : parts) {
    ranges.push_back({part.offset, left.first(part.size)});
    left = left.subspan(part.size);
  }
  source_.read(ranges);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].use(ranges[i].into)) return false;
  }
  return true;
}

bool Comparison::add(std::uint64_t size) {
  const std::uint64_t here = at_;
  at_ += size;
  if (here > source_.size() || size > source_.size() - here) {
    expected_.resize(expected_.size() - size);
    if (compare()) difference_ = source_.size();
    return false;
  }
  if (!parts_.empty() && parts_.back().offset + parts_.back().size == here) {
    parts_.back().size += size;
  } else {
    parts_.push_back({here, size});
  }
  return (parts_.size() < kMaxParts && expected_.size() < kMaxBytes) || compare();
}

bool Comparison::compare() {
  found_.resize(expected_.size());
  ranges_.clear();
  std::span<std::byte> left = found_;
  for (const Part& part : parts_) {
    ranges_.push_back({part.offset, left.first(part.size)});
    left = left.subspan(part.size);
  }
  source_.read(ranges_);
  const std::string_view found = as_text(found_);
  if (found != expected_) {
    const auto differs = std::mismatch(found.begin(), found.end(), expected_.begin()).first;
    auto at = static_cast<std::uint64_t>(differs - found.begin());
    auto part = parts_.begin();
    for (; at >= part->size; ++part) {
      at -= part->size;
    }
    difference_ = part->offset + at;
    return false;
  }
  parts_.clear();
  expected_.clear();
  return true;
}

bool Comparison::finish(std::uint64_t end) {
  if (!compare()) return false;
  difference_ = std::min(at_, end);
  return at_ == end;
}

}  // namespace cairn::zip
