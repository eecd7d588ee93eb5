#include "format/dcp/copy_box.h"

#include <cstring>
#include <utility>
#include <vector>

#include "io/source_part.h"

namespace cairn::dcp {
namespace {

// The place of an element, counted in elements.
std::int64_t place(const Dims& index, const Dims& origin, const Dims& strides) {
  std::int64_t at = 0;
  for (std::size_t d = 0; d < index.size(); ++d) {
    at += (index[d] - origin[d]) * strides[d];
  }
  return at;
}

using Range = ByteSource::Range;

// Shorter runs are read with what lies between them: a range costs as much as so many bytes.
constexpr std::size_t kShortestRange = 512;
constexpr std::size_t kMostRanges = std::size_t{64} << 10;

// What a chunk has of a box, in runs that lie densely on both sides: the last dimensions.
class Overlap {
 public:
  Overlap(const OpenChunk& chunk, Box both, const Box& wanted)
      : chunk_(chunk),
        both_(std::move(both)),
        wanted_(wanted),
        item_(item_size(chunk.tensor.dtype)),
        out_strides_(contiguous_strides(wanted.sizes)),
        outer_(both_.sizes.size()) {
    const Dims& strides = chunk_.tensor.strides;
    while (outer_ > 0 && (both_.sizes[outer_ - 1] == 1 ||
                          (strides[outer_ - 1] == run_ && out_strides_[outer_ - 1] == run_))) {
      run_ *= both_.sizes[--outer_];
    }
  }

  std::size_t run_bytes() const { return static_cast<std::size_t>(run_) * item_; }
  // In the chunk's storage: of the first run, and behind the last one.
  std::uint64_t begin() const { return from(both_.offsets); }
  std::uint64_t end() const {
    Dims last = both_.offsets;
    for (std::size_t d = 0; d < outer_; ++d) {
      last[d] += both_.sizes[d] - 1;
    }
    return from(last) + run_bytes();
  }

  // Calls use(from, to) for every run, in bytes.
  void for_each_run(auto&& use) const {
    Dims index = both_.offsets;
    while (true) {
      use(from(index),
          static_cast<std::uint64_t>(place(index, wanted_.offsets, out_strides_)) * item_);
      std::size_t d = outer_;
      while (d > 0 && ++index[d - 1] == both_.offsets[d - 1] + both_.sizes[d - 1]) {
        --d;
        index[d] = both_.offsets[d];
      }
      if (d == 0) return;
    }
  }

 private:
  std::uint64_t from(const Dims& index) const {
    return static_cast<std::uint64_t>(chunk_.tensor.storage_offset +
                                      place(index, chunk_.box.offsets, chunk_.tensor.strides)) *
           item_;
  }

  const OpenChunk& chunk_;
  Box both_;
  const Box& wanted_;
  std::size_t item_;
  Dims out_strides_;
  std::int64_t run_ = 1;  // elements
  std::size_t outer_;     // dimensions that are not in the run
};

// `bytes` are those of the storage from overlap.begin() on.
void copy_runs(const Overlap& overlap, const SharedBytes& bytes, std::span<std::byte> out) {
  const std::size_t run = overlap.run_bytes();
  overlap.for_each_run([&](std::uint64_t from, std::uint64_t to) {
    std::memcpy(out.subspan(to, run).data(), bytes.view.subspan(from - overlap.begin(), run).data(),
                run);
  });
  bytes.release(bytes.view);
}

void copy_overlap(const OpenChunk& chunk, const Box& wanted, std::span<std::byte> out) {
  auto both = intersect(chunk.box, wanted);
  if (!both) return;
  const std::uint64_t wanted_bytes = box_bytes(*both, chunk.tensor.dtype);
  const Overlap overlap(chunk, std::move(*both), wanted);
  const std::uint64_t size = overlap.end() - overlap.begin();
  const Storage& storage = *chunk.tensor.storage;
  const ByteSource* source = storage.source();
  if (source == nullptr) {
    return copy_runs(overlap, chunk.bytes.part(overlap.begin(), size), out);
  }
  const std::uint64_t begin = storage.source_offset() + overlap.begin();
  if (!source->in_memory() && overlap.run_bytes() < kShortestRange && size <= 2 * wanted_bytes) {
    return copy_runs(overlap, read_bytes(*source, begin, size), out);
  }
  if (source->in_memory() || overlap.run_bytes() < kShortestRange) {
    return copy_runs(overlap, source->view(begin, size), out);
  }
  std::vector<Range> ranges;
  overlap.for_each_run([&](std::uint64_t from, std::uint64_t to) {
    ranges.push_back({storage.source_offset() + from, out.subspan(to, overlap.run_bytes())});
    if (ranges.size() < kMostRanges) return;
    source->read(ranges);
    ranges.clear();
  });
  if (!ranges.empty()) source->read(ranges);
}

}  // namespace

void copy_overlaps(std::span<const OpenChunk> chunks, const Box& wanted, std::span<std::byte> out) {
  for (const OpenChunk& chunk : chunks) {
    copy_overlap(chunk, wanted, out);
  }
}

}  // namespace cairn::dcp
