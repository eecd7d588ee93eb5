// The 16-bit floats: IEEE's half precision (float16) and the upper half of a float (bfloat16).
//
// Conversion to a float is exact. Conversion from a float rounds to the nearest, ties to even, as
// PyTorch does. Values that are too large become infinite; NaNs keep their sign and become quiet.
// The functions are inline, so that loops over many values are vectorised.
#pragma once

#include <bit>
#include <cstdint>

namespace cairn {

inline std::uint16_t bfloat16_of_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  return static_cast<std::uint16_t>(is_nan ? (bits >> 16) | 0x40U : rounded);
}

inline float float_of_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline std::uint16_t half_of_float(float value) {
  constexpr std::uint32_t kInfinity = 0x7F800000U;
  // 65520, half-way from 65504 to the first number beyond the range.
  constexpr std::uint32_t kTooLarge = 0x477FF000U;
  constexpr std::uint32_t kNormal = 0x38800000U;  // 2^-14, the smallest normal number
  constexpr std::uint32_t kBiases = (127U - 15U) << 23;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  std::uint32_t result = 0;
  if (magnitude > kInfinity) {
    result = 0x7E00U | ((magnitude >> 13) & 0x3FFU);
  } else if (magnitude >= kTooLarge) {
    result = 0x7C00U;
  } else if (magnitude >= kNormal) {
    result = (magnitude - kBiases + 0xFFFU + ((magnitude >> 13) & 1U)) >> 13;
  } else {
    // The last bit of a float at 0.5 weighs 2^-24, like that of a subnormal half: the addition does
    // the rounding.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    result = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5F);
  }
  return static_cast<std::uint16_t>(sign | result);
}

inline float float_of_half(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t magnitude = half & 0x7FFFU;
  if (magnitude < 0x0400U) {  // zero or subnormal
    const float value = static_cast<float>(magnitude) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
  }
  std::uint32_t bits = (magnitude << 13) + ((127U - 15U) << 23);
  if (magnitude >= 0x7C00U) bits = 0x7F800000U | (magnitude << 13);
  if (magnitude > 0x7C00U) bits |= 0x400000U;
  return std::bit_cast<float>(sign | bits);
}

}  // namespace cairn
