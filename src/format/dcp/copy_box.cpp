#include "format/dcp/copy_box.h"

#include <utility>
#include <vector>

#include "io/bytes/source_part.h"
#include "value/tensor/strided.h"

namespace cairn::dcp {
namespace {

// Returns the position of an element, counted in elements.
std::int64_t place(const Dims& index, const Dims& origin, const Dims& strides) {
  std::int64_t at = 0;
  for (std::size_t d = 0; d < index.size(); ++d) {
    at += (index[d] - origin[d]) * strides[d];
  }
  return at;
}

using Range = ByteSource::Range;

// Shorter runs are read together with the bytes between them: a range costs as much as reading this
// many bytes.
constexpr std::size_t kShortestRange = 512;
constexpr std::size_t kMaxRanges = std::size_t{64} << 10;
// If the average gap is at most kNear, short runs are read together with the bytes between them, at
// most kMaxAtOnce bytes at a time.
constexpr std::uint64_t kNear = std::uint64_t{16} << 10;
constexpr std::uint64_t kMaxAtOnce = std::uint64_t{16} << 20;
// A range in a list of reads takes about 150 bytes of memory. Runs shorter than this get ranges of
// their own only if they are few.
constexpr std::size_t kShortestLoneRange = std::size_t{4} << 10;

// The elements of a box that a chunk has. The elements are copied in runs. A run is contiguous on
// both sides: it consists of the last dimensions.
class Overlap {
 public:
  Overlap(const OpenChunk& chunk, Box both, const Box& wanted)
      : chunk_(chunk),
        both_(std::move(both)),
        wanted_(wanted),
        item_(item_size(chunk.tensor.dtype)),
        out_strides_(contiguous_strides(wanted.sizes)),
        tail_(dense_tail(both_.sizes, out_strides_, chunk.tensor.strides)) {}

  std::size_t run_bytes() const { return static_cast<std::size_t>(tail_.run) * item_; }
  // Offsets in the chunk's storage: where the first run begins, and where the last one ends.
  std::uint64_t begin() const { return from(both_.offsets); }
  std::uint64_t end() const {
    Dims last = both_.offsets;
    for (std::size_t d = 0; d < tail_.outer; ++d) {
      last[d] += both_.sizes[d] - 1;
    }
    return from(last) + run_bytes();
  }

  // `bytes` are the bytes of the storage from begin() on.
  void copy(const SharedBytes& bytes, std::span<std::byte> out) const {
    copy_strided(both_.sizes, item_, {out.subspan(to(both_.offsets)).data(), out_strides_},
                 {bytes.view.data(), chunk_.tensor.strides});
    bytes.release(bytes.view);
  }

  // Calls use(from, to) for every run, in bytes.
  void for_each_run(auto&& use) const {
    Dims index = both_.offsets;
    while (true) {
      use(from(index), to(index));
      std::size_t d = tail_.outer;
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
  std::uint64_t to(const Dims& index) const {
    return static_cast<std::uint64_t>(place(index, wanted_.offsets, out_strides_)) * item_;
  }

  const OpenChunk& chunk_;
  Box both_;
  const Box& wanted_;
  std::size_t item_;
  Dims out_strides_;
  DenseTail tail_;  // a run
};

// Returns the dimension in which to cut a box in two; nullopt if it has one element.
std::optional<std::size_t> longest_outer_dim(const Box& box) {
  for (std::size_t d = 0; d < box.sizes.size(); ++d) {
    if (box.sizes[d] > 1) return d;
  }
  return std::nullopt;
}

void read_runs(const Overlap& overlap, const Storage& storage, std::span<std::byte> out) {
  std::vector<Range> ranges;
  overlap.for_each_run([&](std::uint64_t from, std::uint64_t to) {
    ranges.push_back({storage.source_offset() + from, out.subspan(to, overlap.run_bytes())});
    if (ranges.size() < kMaxRanges) return;
    storage.source()->read(ranges);
    ranges.clear();
  });
  if (!ranges.empty()) storage.source()->read(ranges);
}

// `both` is the box of elements that are in the chunk and in `wanted`.
void copy_both(const OpenChunk& chunk, Box both, const Box& wanted, std::span<std::byte> out) {
  const std::uint64_t wanted_bytes = box_bytes(both, chunk.tensor.dtype);
  const Overlap overlap(chunk, both, wanted);
  const std::uint64_t size = overlap.end() - overlap.begin();
  const Storage& storage = *chunk.tensor.storage;
  const ByteSource* source = storage.source();
  if (source == nullptr) {
    return overlap.copy(chunk.bytes.part(overlap.begin(), size), out);
  }
  const std::uint64_t begin = storage.source_offset() + overlap.begin();
  if (source->in_memory()) return overlap.copy(source->view(begin, size), out);
  const std::uint64_t runs = wanted_bytes / overlap.run_bytes();
  const bool is_near = size / runs <= wanted_bytes / runs + kNear;
  if (overlap.run_bytes() >= kShortestRange || !is_near) return read_runs(overlap, storage, out);
  const auto d = longest_outer_dim(both);
  if (size <= kMaxAtOnce || !d) return overlap.copy(read_bytes(*source, begin, size), out);
  Box rest = both;
  both.sizes[*d] /= 2;
  rest.offsets[*d] += both.sizes[*d];
  rest.sizes[*d] -= both.sizes[*d];
  copy_both(chunk, std::move(both), wanted, out);
  copy_both(chunk, std::move(rest), wanted, out);
}

void copy_overlap(const OpenChunk& chunk, const Box& wanted, std::span<std::byte> out) {
  auto both = intersect(chunk.box, wanted);
  if (both) copy_both(chunk, std::move(*both), wanted, out);
}

// Returns false if copying is better than reading by ranges.
bool add_ranges_of(const OpenChunk& chunk, const Box& wanted, std::span<std::byte> out,
                   std::vector<SourceRange>& ranges) {
  auto both = intersect(chunk.box, wanted);
  if (!both) return true;
  const std::uint64_t bytes = box_bytes(*both, chunk.tensor.dtype);
  const Overlap overlap(chunk, std::move(*both), wanted);
  const Storage& storage = *chunk.tensor.storage;
  const std::size_t run = overlap.run_bytes();
  const bool are_many = ranges.size() + bytes / run > kMaxRanges;
  if (storage.source() == nullptr || (run < kShortestLoneRange && are_many)) return false;
  overlap.for_each_run([&](std::uint64_t from, std::uint64_t to) {
    ranges.push_back({storage.source(), {storage.source_offset() + from, out.subspan(to, run)}});
  });
  return true;
}

}  // namespace

bool add_ranges(std::span<const OpenChunk> chunks, const Box& wanted, std::span<std::byte> out,
                std::vector<SourceRange>& ranges) {
  const std::size_t before = ranges.size();
  const bool all = std::all_of(chunks.begin(), chunks.end(), [&](const OpenChunk& chunk) {
    return add_ranges_of(chunk, wanted, out, ranges);
  });
  if (!all) ranges.resize(before);
  return all;
}

void copy_overlaps(std::span<const OpenChunk> chunks, const Box& wanted, std::span<std::byte> out) {
  for (const OpenChunk& chunk : chunks) {
    copy_overlap(chunk, wanted, out);
  }
}

void copy_elements(std::span<const OpenChunk> chunks, const ElementsOf& elements,
                   std::uint64_t offset, std::span<std::byte> into) {
  const DType dtype = elements.dtype;
  const Box& box = elements.box;
  const std::size_t element = item_size(dtype);
  fill_from_elements(element, offset, into, [&](std::uint64_t first, std::span<std::byte> out) {
    for_each_box(box.sizes, first, out.size() / element, [&](Dims offsets, const Dims& sizes) {
      for (std::size_t d = 0; d < offsets.size(); ++d) {
        offsets[d] += box.offsets[d];
      }
      const Box wanted{std::move(offsets), sizes};
      const std::uint64_t bytes = box_bytes(wanted, dtype);
      copy_overlaps(chunks, wanted, out.first(bytes));
      out = out.subspan(bytes);
    });
  });
}

}  // namespace cairn::dcp
