// The 16-bit floats: IEEE's half precision (float16) and the upper half of a float (bfloat16).
#pragma once

#include <cstdint>

namespace cairn {

// Exact.
float float_of_half(std::uint16_t half);
float float_of_bfloat16(std::uint16_t bits);

// To the nearest, ties to even, as PyTorch rounds.
std::uint16_t half_of_float(float value);
std::uint16_t bfloat16_of_float(float value);

}  // namespace cairn
