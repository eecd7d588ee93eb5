#include "core/half_float.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace cairn {
namespace {

TEST(HalfFloatTest, EveryHalfIsItselfAfterAFloat) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = float_of_half(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(float_of_half(half_of_float(value))));
    } else {
      ASSERT_EQ(half_of_float(value), half);
    }
  }
}

TEST(HalfFloatTest, KnownHalves) {
  EXPECT_EQ(float_of_half(0x3C00), 1.0F);
  EXPECT_EQ(float_of_half(0xC000), -2.0F);
  EXPECT_EQ(float_of_half(0x7BFF), 65504.0F);
  EXPECT_EQ(float_of_half(0x0001), 0x1p-24F);
  EXPECT_EQ(float_of_half(0x7C00), INFINITY);
}

// Between two neighbours, the middle rounds to the even one, and other numbers to the nearer one.
TEST(HalfFloatTest, RoundsToTheNearestAndTiesToEven) {
  for (std::uint16_t half = 0; half < 0x7BFF; ++half) {
    const auto next = static_cast<std::uint16_t>(half + 1);
    const float middle = (float_of_half(half) + float_of_half(next)) / 2;
    ASSERT_EQ(half_of_float(middle), half % 2 == 0 ? half : next);
    ASSERT_EQ(half_of_float(std::nextafter(middle, 0.0F)), half);
    ASSERT_EQ(half_of_float(-std::nextafter(middle, 1e9F)), next | 0x8000);
  }
  EXPECT_EQ(half_of_float(65519.0F), 0x7BFF);
  EXPECT_EQ(half_of_float(65520.0F), 0x7C00);
  EXPECT_EQ(half_of_float(1e30F), 0x7C00);
}

TEST(HalfFloatTest, BFloat16IsTheUpperHalfRounded) {
  EXPECT_EQ(bfloat16_of_float(1.0F), 0x3F80);
  EXPECT_EQ(float_of_bfloat16(0x3F80), 1.0F);
  EXPECT_EQ(bfloat16_of_float(std::bit_cast<float>(0x3F808000U)), 0x3F80);  // ties to even
  EXPECT_EQ(bfloat16_of_float(std::bit_cast<float>(0x3F818000U)), 0x3F82);
  EXPECT_EQ(bfloat16_of_float(std::bit_cast<float>(0x3F808001U)), 0x3F81);
  EXPECT_EQ(bfloat16_of_float(INFINITY), 0x7F80);
  EXPECT_EQ(bfloat16_of_float(NAN), 0x7FC0);
}

}  // namespace
}  // namespace cairn
