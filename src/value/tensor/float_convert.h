// Floating-point elements in another precision, rounded once to the nearest, ties to even.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cairn/bytes.h"
#include "cairn/tensor.h"

#include "core/half_float.h"

namespace cairn {

// To a float on the way to fewer bits: not the nearest one, but one whose last bit tells that
// something was cut off, so that rounding it again gives what rounding `value` once would have.
inline float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || value != value) return nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  const double magnitude = value < 0 ? -value : value;
  const double found = nearest < 0 ? -static_cast<double>(nearest) : static_cast<double>(nearest);
  if (found > magnitude) --bits;  // towards zero
  return std::bit_cast<float>(bits | 1U);
}

// float16, bfloat16, float32, float64: what convert_floats() takes. Not the 8-bit kinds, whose
// numbers mean nothing without the scales beside them.
bool is_convertible_float(DType dtype);

// The elements as `to`, each rounded once.
void convert_floats(DType from, DType to, ByteView elements, std::vector<std::byte>& converted);

}  // namespace cairn
