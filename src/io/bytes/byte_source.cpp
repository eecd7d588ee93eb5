#include "cairn/byte_source.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "cairn/error.h"

#include "core/per_thread.h"
#include "io/threads/parallel.h"

namespace cairn {
namespace {

// As much as one core can read and then examine while it is in the core's cache.
constexpr std::uint64_t kBatchBytes = std::uint64_t{1} << 20;

struct Slice {
  std::size_t part = 0;
  std::uint64_t begin = 0;  // in the part
  std::uint64_t size = 0;
};
using Slices = std::vector<Slice>;

// Cuts the parts into slices, and groups the slices into batches of at most kBatchBytes.
std::vector<Slices> batches_of(std::span<const ByteSource::Part> parts) {
  std::vector<Slices> batches;
  std::uint64_t room = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (std::uint64_t begin = 0; begin < parts[i].size;) {
      if (room == 0) {
        batches.emplace_back();
        room = kBatchBytes;
      }
      const std::uint64_t size = std::min(room, parts[i].size - begin);
      batches.back().push_back({i, begin, size});
      begin += size;
      room -= size;
    }
  }
  return batches;
}

void show(const ByteSource& source, const ByteSource::Part& part, const Slice& slice,
          const ByteSource::Look& look) {
  const SharedBytes bytes = source.view(part.offset + slice.begin, slice.size);
  ByteView found = bytes.view;
  if (!part.into.empty()) {
    const std::span<std::byte> into = part.into.subspan(slice.begin, slice.size);
    std::copy(found.begin(), found.end(), into.begin());
    found = into;
  }
  look(slice.part, slice.begin, found);
  bytes.release(bytes.view);
}

void read_and_show(const ByteSource& source, std::span<const ByteSource::Part> parts,
                   const Slices& batch, const ByteSource::Look& look) {
  static const BytesPerThread<kBatchBytes> scratches;
  std::vector<ByteSource::Range> ranges;
  ranges.reserve(batch.size());
  std::span<std::byte> left = scratches.here();
  for (const Slice& slice : batch) {
    const ByteSource::Part& part = parts[slice.part];
    const bool is_kept = !part.into.empty();
    ranges.push_back({part.offset + slice.begin, is_kept
                                                     ? part.into.subspan(slice.begin, slice.size)
                                                     : left.first(slice.size)});
    if (!is_kept) left = left.subspan(slice.size);
  }
  source.read(ranges);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    look(batch[i].part, batch[i].begin, ranges[i].into);
  }
}

class MemorySource final : public ByteSource {
 public:
  MemorySource(SharedBytes bytes, std::string name)
      : bytes_(std::move(bytes)), name_(std::move(name)) {}

  std::uint64_t size() const override { return bytes_.view.size(); }
  const std::string& name() const override { return name_; }
  bool in_memory() const override { return true; }
  void read(std::span<const Range> ranges) const override {
    for (const Range& range : ranges) {
      check_range(range.offset, range.into.size());
      std::copy_n(bytes_.view.begin() + static_cast<std::ptrdiff_t>(range.offset),
                  range.into.size(), range.into.begin());
    }
  }
  SharedBytes view(std::uint64_t offset, std::uint64_t size) const override {
    check_range(offset, size);
    return bytes_.part(offset, size);
  }

 private:
  SharedBytes bytes_;
  std::string name_;
};

}  // namespace

void ByteSource::check_range(std::uint64_t offset, std::uint64_t bytes) const {
  if (offset <= size() && bytes <= size() - offset) return;
  throw UsageError("bytes " + std::to_string(offset) + " to " + std::to_string(offset + bytes) +
                   " of " + name() + " were asked for, which has " + std::to_string(size()));
}

void ByteSource::read_each(std::span<const Part> parts, const Look& look) const {
  std::uint64_t bytes = 0;
  for (const Part& part : parts) {
    check_range(part.offset, part.size);
    bytes += part.size;
  }
  const std::vector<Slices> batches = batches_of(parts);
  const auto run = [&](std::size_t i) {
    if (!in_memory()) return read_and_show(*this, parts, batches[i], look);
    for (const Slice& slice : batches[i]) {
      show(*this, parts[slice.part], slice, look);
    }
  };
  for_each_parallel(batches.size(), run, bytes);
}

SharedBytes ByteSource::view(std::uint64_t offset, std::uint64_t bytes) const {
  check_range(offset, bytes);
  const auto buffer = std::make_shared<std::vector<std::byte>>(bytes);
  const Range range{offset, *buffer};
  read({&range, 1});
  return {ByteView(*buffer), buffer};
}

std::shared_ptr<const ByteSource> source_of(SharedBytes bytes, std::string name) {
  return std::make_shared<const MemorySource>(std::move(bytes), std::move(name));
}

}  // namespace cairn
