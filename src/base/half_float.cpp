#include "base/half_float.h"

#include <bit>
#include <cmath>

namespace cairn {
namespace {

constexpr std::uint32_t kSign = 0x8000'0000;

// `bits` without its last `count`, rounded to the nearest, ties to even.
std::uint32_t rounded_shift(std::uint32_t bits, unsigned count) {
  const std::uint32_t half = std::uint32_t{1} << (count - 1);
  const std::uint32_t is_odd = bits >> count & 1;
  return (bits + half - 1 + is_odd) >> count;
}

}  // namespace

float float_of_half(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t exponent = half >> 10 & 0x1FU;
  const std::uint32_t fraction = half & 0x3FFU;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F80'0000 | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = std::ldexp(static_cast<float>(fraction), -24);
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

float float_of_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t half_of_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits & kSign) >> 16;
  const std::uint32_t magnitude = bits & ~kSign;
  std::uint32_t half = 0;
  if (magnitude > 0x7F80'0000) {
    half = 0x7E00;  // NaN
  } else if (magnitude >= 0x4780'0000) {
    half = 0x7C00;  // 2^16 and above, infinity
  } else if (magnitude >= 0x3880'0000) {
    half = rounded_shift(magnitude - (112U << 23), 13);  // may carry into infinity, rightly
  } else if (magnitude >= 0x3300'0000) {                 // becomes subnormal: in units of 2^-24
    const std::uint32_t fraction = (magnitude & 0x7F'FFFF) | 0x80'0000;
    half = rounded_shift(fraction, 126 - (magnitude >> 23));
  }
  return static_cast<std::uint16_t>(sign | half);
}

std::uint16_t bfloat16_of_float(float value) {
  if (std::isnan(value)) return 0x7FC0;
  return static_cast<std::uint16_t>(rounded_shift(std::bit_cast<std::uint32_t>(value), 16));
}

}  // namespace cairn
