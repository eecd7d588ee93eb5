#include "format/dcp/metadata/layout.h"

#include <algorithm>
#include <limits>
#include <set>

#include "cairn/error.h"

#include "core/checked.h"

namespace cairn::dcp {
namespace {

// Most comparisons of two chunks. In a grid of ranks, the number of comparisons for each chunk is
// about the square root of the grid's size.
constexpr std::uint64_t kMaxComparisons = std::uint64_t{1} << 28;

std::uint64_t numel(const Dims& sizes) {
  std::uint64_t count = 1;
  bool is_empty = false;
  for (const std::int64_t size : sizes) {
    is_empty = is_empty || size == 0;
    if (size > 0) count = checked_multiply(count, static_cast<std::uint64_t>(size));
  }
  return is_empty ? 0 : count;
}

std::uint64_t bytes_of(const Dims& sizes, DType dtype) {
  const std::uint64_t bytes = checked_multiply<std::uint64_t>(numel(sizes), item_size(dtype));
  if (bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    throw CorruptError("a tensor of " + std::to_string(bytes) + " bytes");
  }
  return bytes;
}

// Returns the dimension in which the chunks have the most distinct starts.
std::size_t busiest_dim(const std::vector<Chunk>& chunks, std::size_t dims) {
  std::size_t best = 0;
  std::size_t most = 0;
  for (std::size_t d = 0; d < dims; ++d) {
    std::set<std::int64_t> starts;
    for (const Chunk& chunk : chunks) {
      starts.insert(chunk.box.offsets[d]);
    }
    if (starts.size() > most) {
      most = starts.size();
      best = d;
    }
  }
  return best;
}

// Goes through the chunks in the order of their starts in dimension `d`. Compares each chunk with
// the earlier chunks that have not ended before its start.
void check_overlaps(const std::vector<Chunk>& chunks, std::size_t d) {
  std::vector<const Box*> open;
  std::uint64_t comparisons = 0;
  for (const Chunk& chunk : chunks) {
    const std::int64_t start = chunk.box.offsets[d];
    comparisons += open.size() + 1;
    std::erase_if(open, [&](const Box* box) { return box->offsets[d] + box->sizes[d] <= start; });
    if (comparisons > kMaxComparisons) {
      throw UnsupportedError("its chunks lie so irregularly that checking them takes too long");
    }
    for (const Box* box : open) {
      if (!overlap(*box, chunk.box)) continue;
      throw CorruptError("its chunks at " + describe(box->offsets) + " and " +
                         describe(chunk.box.offsets) + " overlap");
    }
    open.push_back(&chunk.box);
  }
}

}  // namespace

std::uint64_t box_bytes(const Box& box, DType dtype) { return bytes_of(box.sizes, dtype); }
std::uint64_t tensor_bytes(const Item& item) { return bytes_of(item.size, *item.dtype); }

void check_inside(const Box& box, const Dims& size) {
  bool fits = box.offsets.size() == size.size() && box.sizes.size() == size.size();
  for (std::size_t d = 0; fits && d < size.size(); ++d) {
    fits = box.offsets[d] >= 0 && box.sizes[d] >= 0 && box.offsets[d] <= size[d] &&
           box.sizes[d] <= size[d] - box.offsets[d];
  }
  if (fits) return;
  throw CorruptError("a chunk of size " + describe(box.sizes) + " at " + describe(box.offsets) +
                     " is outside of a tensor of size " + describe(size));
}

std::optional<Box> intersect(const Box& a, const Box& b) {
  Box both;
  for (std::size_t d = 0; d < a.sizes.size(); ++d) {
    const std::int64_t begin = std::max(a.offsets[d], b.offsets[d]);
    const std::int64_t end = std::min(a.offsets[d] + a.sizes[d], b.offsets[d] + b.sizes[d]);
    if (end <= begin) return std::nullopt;
    both.offsets.push_back(begin);
    both.sizes.push_back(end - begin);
  }
  return both;
}

bool overlap(const Box& a, const Box& b) noexcept {
  for (std::size_t d = 0; d < a.sizes.size(); ++d) {
    const std::int64_t begin = std::max(a.offsets[d], b.offsets[d]);
    const std::int64_t end = std::min(a.offsets[d] + a.sizes[d], b.offsets[d] + b.sizes[d]);
    if (end <= begin) return false;
  }
  return true;
}

void check_layout(Item& item) {
  if (!item.dtype) return;
  std::vector<Chunk>& chunks = item.chunks;
  if (chunks.size() > 1) {
    const std::size_t d = busiest_dim(chunks, item.size.size());
    std::stable_sort(chunks.begin(), chunks.end(), [d](const Chunk& a, const Chunk& b) {
      const Dims& left = a.box.offsets;
      const Dims& right = b.box.offsets;
      if (left.empty() || left[d] == right[d]) return left < right;
      return left[d] < right[d];
    });
    const auto same = std::unique(chunks.begin(), chunks.end(),
                                  [](const auto& a, const auto& b) { return a.box == b.box; });
    chunks.erase(same, chunks.end());
    if (!item.size.empty()) check_overlaps(chunks, d);
  }
  std::uint64_t stored = 0;
  for (const Chunk& chunk : chunks) {
    stored = checked_add(stored, numel(chunk.box.sizes));
  }
  if (stored == numel(item.size)) return;
  throw CorruptError("its chunks hold " + std::to_string(stored) + " of " +
                     std::to_string(numel(item.size)) + " elements");
}

std::string describe(const Dims& dims) {
  std::string text = "(";
  for (const std::int64_t dim : dims) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(dim);
  }
  return text + ")";
}

}  // namespace cairn::dcp
