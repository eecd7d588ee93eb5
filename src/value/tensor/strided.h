// Loops over elements that are not contiguous, and calculations of their places.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "cairn/tensor.h"

namespace cairn {

// Items at intervals of `step` bytes.
struct ItemsTo {
  std::byte* first;
  std::size_t step;
};
struct ItemsFrom {
  const std::byte* first;
  std::size_t step;
};

// Copies `count` items of `item` bytes each. Source and target must not overlap.
void copy_items(ItemsTo to, ItemsFrom from, std::size_t count, std::size_t item) noexcept;

// The places of a box's elements.
struct StridedTo {
  std::byte* first;                       // the element at position 0, 0, ...
  std::span<const std::int64_t> strides;  // in elements, one per dimension of the box
};
struct StridedFrom {
  const std::byte* first;
  std::span<const std::int64_t> strides;
};

// The last dimensions, if they are contiguous together on both sides.
struct DenseTail {
  std::size_t outer;  // number of dimensions before them
  std::int64_t run;   // number of elements in them
};
DenseTail dense_tail(std::span<const std::int64_t> shape, std::span<const std::int64_t> to_strides,
                     std::span<const std::int64_t> from_strides) noexcept;

// Copies the elements of a box of `shape` to other places. This is a gather if the targets are
// contiguous, a scatter if the sources are. Dimensions that are contiguous together on both sides
// are copied as one. Allocates nothing. Source and target must not overlap.
void copy_strided(std::span<const std::int64_t> shape, std::size_t item, const StridedTo& to,
                  const StridedFrom& from) noexcept;

// Calls use(offsets, sizes) for boxes that follow one another in row-major order. Together they
// have `count` elements of a tensor of `shape`, beginning with element number `first`. All these
// elements must exist. There are at most two boxes for each dimension.
void for_each_box(std::span<const std::int64_t> shape, std::uint64_t first, std::uint64_t count,
                  auto&& use) {
  const std::size_t rank = shape.size();
  Dims offsets(rank);
  Dims sizes(rank, 1);
  while (count > 0) {
    std::uint64_t rest = first;
    for (std::size_t d = rank; d-- > 0;) {
      const auto size = static_cast<std::uint64_t>(shape[d]);
      offsets[d] = static_cast<std::int64_t>(rest % size);
      sizes[d] = 1;
      rest /= size;
    }
    // Takes as many whole last dimensions as begin here and fit, then some steps of the next
    // dimension.
    std::uint64_t elements = 1;
    std::size_t whole = rank;
    while (whole > 0) {
      const std::uint64_t more = elements * static_cast<std::uint64_t>(shape[whole - 1]);
      if (more > count || first % more != 0) break;
      sizes[whole - 1] = shape[whole - 1];
      elements = more;
      --whole;
    }
    if (whole > 0) {
      std::int64_t& steps = sizes[whole - 1];
      steps = std::min(static_cast<std::int64_t>(count / elements),
                       shape[whole - 1] - offsets[whole - 1]);
      elements *= static_cast<std::uint64_t>(steps);
    }
    use(offsets, sizes);
    first += elements;
    count -= elements;
  }
}

// Serves a byte range of data that is made element by element. Calls fill(first, out) for the
// elements that overlap `into`, the bytes from `offset` on. Cuts off bytes of the first and last
// element that are not in the range.
void fill_from_elements(std::size_t item, std::uint64_t offset, std::span<std::byte> into,
                        auto&& fill) {
  if (into.empty()) return;
  if (offset % item == 0 && into.size() % item == 0) return fill(offset / item, into);
  const std::uint64_t first = offset / item;
  std::vector<std::byte> whole((offset + into.size() + item - 1) / item * item - first * item);
  fill(first, std::span(whole));
  std::memcpy(into.data(), whole.data() + (offset - first * item), into.size());
}

}  // namespace cairn
