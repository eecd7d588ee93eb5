#include "checkpoint/convert/shard_boxes.h"

#include <algorithm>

#include "cairn/error.h"

namespace cairn {
namespace {

// Consecutive indices along one dimension of the full tensor.
struct IndexRange {
  std::int64_t begin = 0;
  std::int64_t size = 0;
};
using IndexRanges = std::vector<IndexRange>;

std::int64_t size_of(const IndexRanges& ranges) {
  std::int64_t size = 0;
  for (const IndexRange& range : ranges) {
    size += range.size;
  }
  return size;
}

// Returns the indices from the `begin`-th up to the `end`-th, without the `end`-th.
IndexRanges slice(const IndexRanges& ranges, std::int64_t begin, std::int64_t end) {
  IndexRanges part;
  std::int64_t at = 0;
  for (const IndexRange& range : ranges) {
    const std::int64_t from = std::max(begin, at);
    const std::int64_t to = std::min(end, at + range.size);
    if (from < to) part.push_back({range.begin + from - at, to - from});
    at += range.size;
  }
  return part;
}

// Returns piece `index` of `count` pieces, as torch.chunk() cuts.
IndexRanges chunk(const IndexRanges& ranges, std::int64_t count, std::int64_t index) {
  const std::int64_t size = size_of(ranges);
  const std::int64_t most = size / count + (size % count != 0 ? 1 : 0);
  const std::int64_t begin = index > 0 && most > size / index ? size : std::min(size, most * index);
  return slice(ranges, begin, std::min(size, begin + most));
}

// Returns the indices that `placement` gives to the rank at `index` of `count`.
IndexRanges place(const IndexRanges& ranges, const Placement& placement, std::int64_t count,
                  std::int64_t index) {
  if (placement.kind == Placement::Kind::kShard) return chunk(ranges, count, index);
  IndexRanges parts;
  for (std::int64_t piece = 0; piece < placement.split_factor; ++piece) {
    const IndexRanges of_piece = chunk(ranges, placement.split_factor, piece);
    for (const IndexRange& part : chunk(of_piece, count, index)) {
      const bool follows = !parts.empty() && parts.back().begin + parts.back().size == part.begin;
      if (follows) {
        parts.back().size += part.size;
      } else {
        parts.push_back(part);
      }
    }
  }
  return parts;
}

// Returns the indices of the shard at `coordinate`, for each dimension of the tensor.
std::vector<IndexRanges> indices_of(const DTensor& tensor, const Dims& coordinate) {
  std::vector<IndexRanges> indices;
  for (const std::int64_t size : tensor.shape) {
    indices.push_back({{0, size}});
  }
  for (const std::size_t mesh_dim : tensor.order) {
    const Placement& placement = tensor.placements[mesh_dim];
    if (placement.kind == Placement::Kind::kReplicate) continue;
    IndexRanges& ranges = indices[static_cast<std::size_t>(placement.dim)];
    ranges = place(ranges, placement, tensor.mesh.shape[mesh_dim], coordinate[mesh_dim]);
  }
  return indices;
}

}  // namespace

std::vector<ShardBox> shard_boxes(const DTensor& tensor, const Dims& coordinate) {
  const std::vector<IndexRanges> indices = indices_of(tensor, coordinate);
  Dims sizes;
  for (const IndexRanges& ranges : indices) {
    sizes.push_back(size_of(ranges));
  }
  if (sizes != tensor.local.shape) {
    throw CorruptError("a shard of another size than its placements give: " +
                       placement_text(tensor));
  }
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return {};
  std::vector<ShardBox> boxes = {{}};
  for (const IndexRanges& ranges : indices) {
    std::vector<ShardBox> longer;
    for (const ShardBox& shorter : boxes) {
      std::int64_t at = 0;
      for (const IndexRange& range : ranges) {
        ShardBox box = shorter;
        box.box.offsets.push_back(range.begin);
        box.box.sizes.push_back(range.size);
        box.at.push_back(at);
        at += range.size;
        longer.push_back(std::move(box));
      }
    }
    boxes = std::move(longer);
  }
  return boxes;
}

}  // namespace cairn
