// Copies elements between boxes of a tensor.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "cairn/tensor.h"

#include "format/dcp/metadata/layout.h"
#include "value/tensor/assembled_storage.h"

namespace cairn::dcp {

// A chunk whose file has been opened.
struct OpenChunk {
  Box box;            // its place in the whole tensor
  TensorView tensor;  // its elements, with the box's sizes and any strides
  SharedBytes bytes;  // of the tensor's storage, unless the storage is a range of a source
};

// Copies the chunks' elements in the box `wanted` to their places in `out`, which holds the
// elements of `wanted` in row-major order. Ranges of a source are read directly into place. Throws
// StorageError if reading fails.
void copy_overlaps(std::span<const OpenChunk> chunks, const Box& wanted, std::span<std::byte> out);

// As copy_overlaps(), for a byte range of the elements of `elements.box`. The range begins at
// `offset` of a Storage that holds the elements in row-major order.
struct ElementsOf {
  DType dtype;
  const Box& box;
};
void copy_elements(std::span<const OpenChunk> chunks, const ElementsOf& elements,
                   std::uint64_t offset, std::span<std::byte> into);

// Adds the ranges that copy_overlaps() would read: see AssembledStorage::add_ranges().
bool add_ranges(std::span<const OpenChunk> chunks, const Box& wanted, std::span<std::byte> out,
                std::vector<SourceRange>& ranges);

// Calls use(box) for boxes that follow one another in row-major order and together make up a tensor
// of `size`. Each box has at most `most_elements` elements, or one element if that is less than 1.
void for_each_window(const Dims& size, std::int64_t most_elements, auto&& use) {
  // A window is some rows of dimension `d`, and all of each later dimension.
  std::size_t d = size.size();
  std::int64_t inner = 1;
  while (d > 0 && inner * size[d - 1] <= most_elements) {
    inner *= size[--d];
  }
  Box window{.offsets = Dims(size.size(), 0), .sizes = size};
  if (d == 0) return use(window);
  --d;
  for (std::size_t outer = 0; outer < d; ++outer) {
    window.sizes[outer] = 1;
  }
  const std::int64_t rows = std::max<std::int64_t>(1, most_elements / inner);
  while (true) {
    window.sizes[d] = std::min(rows, size[d] - window.offsets[d]);
    use(window);
    window.offsets[d] += window.sizes[d];
    for (std::size_t k = d; window.offsets[k] == size[k]; --k) {
      if (k == 0) return;
      window.offsets[k] = 0;
      ++window.offsets[k - 1];
    }
  }
}

}  // namespace cairn::dcp
