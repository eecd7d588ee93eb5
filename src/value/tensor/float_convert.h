// Converts floating-point elements to another precision. Rounds once, to the nearest, ties to even.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cairn/bytes.h"
#include "cairn/tensor.h"

#include "core/half_float.h"

namespace cairn {

// Rounds to a float as the first step of a conversion to fewer bits. The result is not the nearest
// float: its last bit says whether bits were cut off. So rounding it again gives the same as
// rounding `value` once.
inline float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || value != value) return nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  const double magnitude = value < 0 ? -value : value;
  const double found = nearest < 0 ? -static_cast<double>(nearest) : static_cast<double>(nearest);
  if (found > magnitude) --bits;  // towards zero
  return std::bit_cast<float>(bits | 1U);
}

// Returns whether convert_floats() accepts the dtype: float16, bfloat16, float32, float64. It
// refuses 8-bit floats, whose numbers mean nothing without separate scales.
bool is_convertible_float(DType dtype);

// Converts the elements to `to`, rounding each once.
void convert_floats(DType from, DType to, ByteView elements, std::vector<std::byte>& converted);

}  // namespace cairn
