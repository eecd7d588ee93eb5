#include "format/zip/small_parts.h"

#include <algorithm>
#include <utility>

namespace cairn::zip {
namespace {

constexpr std::size_t kMostParts = 4096;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 20;

}  // namespace

bool SmallParts::add(std::uint64_t offset, std::uint64_t size, Use use) {
  parts_.push_back({offset, size, std::move(use)});
  bytes_ += size;
  return (parts_.size() < kMostParts && bytes_ < kMostBytes) || flush();
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

bool Comparison::expect(std::string expected) {
  const std::uint64_t here = at_;
  const std::uint64_t size = expected.size();
  at_ += size;
  if (here > source_.size() || size > source_.size() - here) {
    if (parts_.flush()) difference_ = source_.size();
    return false;
  }
  return parts_.add(here, size, [this, here, text = std::move(expected)](ByteView bytes) {
    const std::string_view found = as_text(bytes);
    const auto differs = std::mismatch(found.begin(), found.end(), text.begin()).first;
    difference_ = here + static_cast<std::uint64_t>(differs - found.begin());
    return differs == found.end();
  });
}

bool Comparison::finish() {
  if (!parts_.flush()) return false;
  difference_ = at_;
  return at_ == source_.size();
}

}  // namespace cairn::zip
