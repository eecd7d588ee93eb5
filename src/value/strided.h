// Elements that do not lie side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace cairn {

struct StridedPlace {
  std::byte* first;  // of the element at position 0, 0, ...
  std::span<const std::int64_t> shape;
  std::span<const std::int64_t> strides;  // in elements
  std::size_t item_size;
};

// Copies elements that lie side by side, in row-major order, to their places. Allocates nothing.
void scatter(const std::byte* elements, const StridedPlace& to) noexcept;

}  // namespace cairn
