#include "cli/view/content/compare_tensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace cairn::cli {
namespace {

template <class T>
TensorView tensor_of(DType dtype, std::vector<T> elements) {
  auto owner = std::make_shared<std::vector<T>>(std::move(elements));
  const auto count = static_cast<std::int64_t>(owner->size() * sizeof(T) / item_size(dtype));
  return make_tensor(dtype, {count}, {std::as_bytes(std::span(*owner)), owner});
}
TensorView floats(std::vector<float> elements) {
  return tensor_of(DType::kFloat32, std::move(elements));
}

TEST(CompareTensorsTest, CountsMeasuresAndAverages) {
  const auto distance = compare_tensors(floats({1, 2, 3, 4}), floats({1, 2.5, 3, 3}), std::nullopt);
  ASSERT_TRUE(distance);
  EXPECT_EQ(distance->elements, 4);
  EXPECT_EQ(distance->differing, 2);
  EXPECT_EQ(distance->max_abs, 1);
  EXPECT_EQ(distance->mean_abs, 1.5 / 4);
}

TEST(CompareTensorsTest, WithoutAToleranceEveryBitCounts) {
  const auto zeros = compare_tensors(floats({0, NAN}), floats({-0.0F, NAN}), std::nullopt);
  EXPECT_EQ(zeros->differing, 1);
  EXPECT_EQ(zeros->max_abs, 0);
  EXPECT_EQ(compare_tensors(floats({0, NAN}), floats({-0.0F, -NAN}), 0)->differing, 0);
}

TEST(CompareTensorsTest, AToleranceForgivesWhatIsNoFurtherApart) {
  const TensorView a = floats({1, 2, 3});
  const TensorView b = floats({1.25, 2, 2});
  EXPECT_EQ(compare_tensors(a, b, 0.25)->differing, 1);
  EXPECT_EQ(compare_tensors(a, b, 1.0)->differing, 0);
  EXPECT_EQ(compare_tensors(a, b, 1.0)->max_abs, 1);
}

TEST(CompareTensorsTest, ANanOrAnInfinityAgainstANumberIsInfinitelyFar) {
  EXPECT_EQ(compare_tensors(floats({NAN}), floats({1}), 1e9)->differing, 1);
  EXPECT_TRUE(std::isinf(compare_tensors(floats({NAN}), floats({1}), std::nullopt)->max_abs));
  EXPECT_EQ(compare_tensors(floats({INFINITY}), floats({INFINITY}), 0)->differing, 0);
  EXPECT_EQ(compare_tensors(floats({INFINITY}), floats({-INFINITY}), 1e9)->differing, 1);
}

TEST(CompareTensorsTest, DtypesAreComparedAsNumbersAndIntegersExactly) {
  const TensorView half = tensor_of<std::uint16_t>(DType::kBFloat16, {0x3F80, 0x4000});
  EXPECT_EQ(compare_tensors(half, floats({1, 2.5}), std::nullopt)->differing, 1);
  const std::int64_t large = (std::int64_t{1} << 60);
  const auto integers =
      compare_tensors(tensor_of<std::int64_t>(DType::kInt64, {large, INT64_MIN}),
                      tensor_of<std::int64_t>(DType::kInt64, {large + 1, INT64_MAX}), 0);
  EXPECT_EQ(integers->differing, 2);  // as doubles the first two would be equal
  EXPECT_EQ(integers->max_abs, std::numeric_limits<std::uint64_t>::max());
}

TEST(CompareTensorsTest, ComplexByTheMagnitudeAndPackedOnesByTheirWorst) {
  const auto complex =
      compare_tensors(tensor_of<float>(DType::kComplex64, {0, 0, 1, 1}),
                      tensor_of<float>(DType::kComplex64, {3, 4, 1, 1}), std::nullopt);
  EXPECT_EQ(complex->elements, 2);
  EXPECT_EQ(complex->differing, 1);
  EXPECT_EQ(complex->max_abs, 5);
  const auto packed = compare_tensors(tensor_of<std::uint8_t>(DType::kBits4x2, {0x12}),
                                      tensor_of<std::uint8_t>(DType::kBits4x2, {0x52}), 0);
  EXPECT_EQ(packed->max_abs, 4);
  EXPECT_FALSE(compare_tensors(tensor_of<float>(DType::kComplex64, {0, 0}), floats({0}), 0));
}

TEST(CompareTensorsTest, LargeAndStridedTensorsAreMetPieceByPiece) {
  std::vector<float> numbers(200'000);
  std::vector<float> others(200'000);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<float>(i);
    others[i / 500 + i % 500 * 400] = static_cast<float>(i);
  }
  others[123'456] += 8;
  TensorView a = floats(numbers);
  a.shape = {400, 500};
  a.strides = {500, 1};
  TensorView b = floats(others);
  b.shape = {400, 500};
  b.strides = {1, 400};  // the transposed order
  const auto distance = compare_tensors(a, b, std::nullopt);
  EXPECT_EQ(distance->elements, 200'000);
  EXPECT_EQ(distance->differing, 1);
  EXPECT_EQ(distance->max_abs, 8);
}

}  // namespace
}  // namespace cairn::cli
