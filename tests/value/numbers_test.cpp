#include "value/numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace cairn {
namespace {

using ::testing::ElementsAre;

template <class T>
std::vector<double> decoded(DType dtype, const std::vector<T>& raw) {
  std::vector<double> numbers = {-1};  // must be replaced
  decode_numbers(dtype, std::as_bytes(std::span(raw)), numbers);
  return numbers;
}

std::vector<double> decoded(DType dtype, std::initializer_list<int> raw) {
  return decoded(dtype, std::vector<std::uint8_t>(raw.begin(), raw.end()));
}

TEST(NumbersTest, IntegersKeepTheirSign) {
  EXPECT_THAT(decoded(DType::kInt8, {0, 127, 128, 255}), ElementsAre(0, 127, -128, -1));
  EXPECT_THAT(decoded(DType::kUInt8, {0, 127, 128, 255}), ElementsAre(0, 127, 128, 255));
  EXPECT_THAT(decoded<std::int64_t>(DType::kInt64, {-5, INT64_MIN}), ElementsAre(-5, -0x1p63));
  EXPECT_THAT(decoded<std::uint64_t>(DType::kUInt64, {UINT64_MAX}), ElementsAre(0x1p64));
  EXPECT_THAT(decoded(DType::kBool, {0, 1, 2}), ElementsAre(0, 1, 1));
}

TEST(NumbersTest, HalfHasSubnormalsInfinityAndNan) {
  const auto numbers = decoded<std::uint16_t>(
      DType::kFloat16, {0x0000, 0x8000, 0x0001, 0x03FF, 0x3C00, 0xC000, 0x7BFF, 0x7C00, 0xFC00});
  EXPECT_THAT(numbers,
              ElementsAre(0, 0, 0x1p-24, 1023 * 0x1p-24, 1, -2, 65504, INFINITY, -INFINITY));
  EXPECT_TRUE(std::signbit(numbers[1]));
  EXPECT_TRUE(std::isnan(decoded<std::uint16_t>(DType::kFloat16, {0x7E01})[0]));
}

TEST(NumbersTest, BfloatIsTheUpperHalfOfAFloat) {
  EXPECT_THAT(decoded<std::uint16_t>(DType::kBFloat16, {0x3F80, 0xC040, 0x0001, 0xFF80}),
              ElementsAre(1, -3, 0x1p-133, -INFINITY));
}

// The largest, the smallest, one, minus two and the special values, from the papers that define
// them.
TEST(NumbersTest, FloatsOfEightBits) {
  EXPECT_THAT(decoded(DType::kFloat8E4M3FN, {0x7E, 0x01, 0x38, 0xC0}),
              ElementsAre(448, 0x1p-9, 1, -2));
  EXPECT_THAT(decoded(DType::kFloat8E4M3FNUZ, {0x7F, 0x01, 0x40, 0xC8}),
              ElementsAre(240, 0x1p-10, 1, -2));
  EXPECT_THAT(decoded(DType::kFloat8E5M2, {0x7B, 0x01, 0x3C, 0xC0, 0x7C, 0xFC}),
              ElementsAre(57344, 0x1p-16, 1, -2, INFINITY, -INFINITY));
  EXPECT_THAT(decoded(DType::kFloat8E5M2FNUZ, {0x7F, 0x01, 0x40, 0xC4}),
              ElementsAre(57344, 0x1p-17, 1, -2));
  EXPECT_THAT(decoded(DType::kFloat8E8M0FNU, {0, 127, 254}), ElementsAre(0x1p-127, 1, 0x1p127));
  for (const auto& [dtype, bits] : {std::pair{DType::kFloat8E4M3FN, 0x7F},
                                    {DType::kFloat8E4M3FN, 0xFF},
                                    {DType::kFloat8E4M3FNUZ, 0x80},
                                    {DType::kFloat8E5M2, 0x7D},
                                    {DType::kFloat8E5M2FNUZ, 0x80},
                                    {DType::kFloat8E8M0FNU, 0xFF}}) {
    EXPECT_TRUE(std::isnan(decoded(dtype, {bits})[0])) << name(dtype) << " " << bits;
  }
}

TEST(NumbersTest, PackedElementsAreTakenApartLowestBitsFirst) {
  EXPECT_THAT(decoded(DType::kFloat4E2M1FNx2, {0x71, 0xA0}), ElementsAre(0.5, 6, 0, -1));
  EXPECT_THAT(decoded(DType::kQUInt4x2, {0xF1}), ElementsAre(1, 15));
  EXPECT_THAT(decoded(DType::kQUInt2x4, {0xE4}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(decoded(DType::kBits1x8, {0x81}), ElementsAre(1, 0, 0, 0, 0, 0, 0, 1));
}

TEST(NumbersTest, EveryDtypeGivesAsManyNumbersAsItSays) {
  for (int i = 0; i <= static_cast<int>(DType::kBits4x2); ++i) {
    const auto dtype = static_cast<DType>(i);
    const std::vector<std::uint8_t> raw(3 * item_size(dtype), 0);
    EXPECT_EQ(decoded(dtype, raw).size(), 3 * numbers_per_element(dtype)) << name(dtype);
  }
  EXPECT_THAT(decoded<float>(DType::kComplex64, {1, -2.5F}), ElementsAre(1, -2.5));
}

}  // namespace
}  // namespace cairn
