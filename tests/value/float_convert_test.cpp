// Tests every 16-bit number, and every number half-way between two of them.
#include "value/tensor/float_convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace cairn {
namespace {

struct Format {
  std::uint16_t (*bits)(float);
  float (*value)(std::uint16_t);
  std::uint16_t infinity;
};

const char* name_of(const Format& format) {
  return format.infinity == 0x7C00 ? "float16" : "bfloat16";
}
void PrintTo(const Format& format, std::ostream* out) {
  *out << name_of(format);
}  // NOLINT: gtest's

class FloatConvertTest : public ::testing::TestWithParam<Format> {
 protected:
  // Rounds as for doubles, and as for floats. Both must agree if the value is a float.
  std::uint16_t rounded(double value) const {
    const std::uint16_t bits = GetParam().bits(round_to_odd(value));
    const auto single = static_cast<float>(value);
    if (static_cast<double>(single) == value) {
      EXPECT_EQ(bits, GetParam().bits(single));
    }
    return bits;
  }
};

TEST_P(FloatConvertTest, EveryNumberComesBack) {
  const auto& [bits, value, infinity] = GetParam();
  for (std::uint32_t i = 0; i <= 0xFFFF; ++i) {
    const auto number = static_cast<std::uint16_t>(i);
    const float there = value(number);
    if ((number & 0x7FFFU) > infinity) {
      EXPECT_TRUE(std::isnan(there));
      EXPECT_TRUE(std::isnan(value(bits(there))));
      EXPECT_EQ(std::signbit(value(bits(there))), (number & 0x8000U) != 0);
    } else {
      ASSERT_EQ(bits(there), number);
    }
  }
}

TEST_P(FloatConvertTest, RoundsToTheNearestAndTiesToEven) {
  const auto& [bits, value, infinity] = GetParam();
  for (std::uint32_t i = 0; i < infinity; ++i) {
    const auto below = static_cast<std::uint16_t>(i);
    const auto above = static_cast<std::uint16_t>(i + 1);
    const double low = value(below);
    // Infinity follows the largest number. Rounding treats it as the next power of two.
    const double high = above == infinity ? 2 * low - value(static_cast<std::uint16_t>(i - 1))
                                          : static_cast<double>(value(above));
    const double middle = (low + high) / 2;  // exact: doubles have bits to spare
    for (const double sign : {1.0, -1.0}) {
      const auto expected = [&](std::uint16_t magnitude) {
        return static_cast<std::uint16_t>(magnitude | (sign < 0 ? 0x8000U : 0U));
      };
      ASSERT_EQ(rounded(sign * middle), expected(i % 2 == 0 ? below : above)) << i;
      ASSERT_EQ(rounded(sign * std::nextafter(middle, 0.0)), expected(below)) << i;
      ASSERT_EQ(rounded(sign * std::nextafter(middle, 1e300)), expected(above)) << i;
    }
  }
}

TEST_P(FloatConvertTest, WhatIsTooLargeIsInfinite) {
  const auto& [bits, value, infinity] = GetParam();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(rounded(kInfinity), infinity);
  EXPECT_EQ(rounded(-kInfinity), infinity | 0x8000U);
  EXPECT_EQ(rounded(1e300), infinity);
  EXPECT_EQ(rounded(-1e300), infinity | 0x8000U);
  EXPECT_EQ(rounded(1e-300), 0);
  EXPECT_EQ(rounded(-1e-300), 0x8000U);
}

TEST_P(FloatConvertTest, NaNsStayNaNs) {
  for (const double sign : {1.0, -1.0}) {
    const double nan = std::copysign(std::numeric_limits<double>::quiet_NaN(), sign);
    const float back = GetParam().value(GetParam().bits(round_to_odd(nan)));
    EXPECT_TRUE(std::isnan(back));
    EXPECT_EQ(std::signbit(back), sign < 0);
  }
  // A NaN whose payload is in the bits that are cut off.
  EXPECT_TRUE(std::isnan(GetParam().value(GetParam().bits(std::bit_cast<float>(0x7F800001U)))));
}

INSTANTIATE_TEST_SUITE_P(Formats, FloatConvertTest,
                         ::testing::Values(Format{half_of_float, float_of_half, 0x7C00},
                                           Format{bfloat16_of_float, float_of_bfloat16, 0x7F80}),
                         [](const auto& test) { return name_of(test.param); });

}  // namespace
}  // namespace cairn
