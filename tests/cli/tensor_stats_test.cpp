#include "cli/view/content/tensor_stats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace cairn::cli {
namespace {

template <class T>
TensorView stats_tensor(DType dtype, std::vector<T> elements) {
  auto owner = std::make_shared<std::vector<T>>(std::move(elements));
  const auto count = static_cast<std::int64_t>(owner->size() * sizeof(T) / item_size(dtype));
  return make_tensor(dtype, {count}, {std::as_bytes(std::span(*owner)), owner});
}

TEST(TensorStatsTest, AreOfTheFiniteNumbersAndCountTheOthers) {
  const TensorStats stats = tensor_stats(
      stats_tensor<float>(DType::kFloat32, {1, 2, 3, 4, 0, -0.0F, NAN, INFINITY, -INFINITY, NAN}));
  EXPECT_EQ(stats.count, 10);
  EXPECT_EQ(stats.nan, 2);
  EXPECT_EQ(stats.inf, 2);
  EXPECT_EQ(stats.zeros, 2);
  EXPECT_DOUBLE_EQ(stats.zero_share(), 0.2);
  ASSERT_TRUE(stats.finite);
  EXPECT_EQ(stats.finite->min, 0);
  EXPECT_EQ(stats.finite->max, 4);
  EXPECT_DOUBLE_EQ(stats.finite->mean, 10.0 / 6);
  EXPECT_NEAR(stats.finite->std, 1.6329931618554521, 1e-15);  // torch.tensor([...]).std()
  const auto& bins = stats.finite->histogram;
  EXPECT_EQ(std::accumulate(bins.begin(), bins.end(), std::uint64_t{0}), 6);
  EXPECT_EQ(bins.front(), 2);
  EXPECT_EQ(bins.back(), 1);
}

TEST(TensorStatsTest, SurviveSeveralPiecesFarFromZero) {
  std::vector<double> numbers(300'000);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = 1e9 + static_cast<double>(i % 2);
  }
  const TensorStats stats = tensor_stats(stats_tensor(DType::kFloat64, numbers));
  EXPECT_DOUBLE_EQ(stats.finite->mean, 1e9 + 0.5);
  EXPECT_NEAR(stats.finite->std, 0.5 * std::sqrt(300'000 / 299'999.0), 1e-9);
  EXPECT_EQ(stats.finite->histogram.front(), 150'000);
  EXPECT_EQ(stats.finite->histogram.back(), 150'000);
}

TEST(TensorStatsTest, NothingOneNumberAndEqualNumbersAreNoSpecialCase) {
  EXPECT_FALSE(tensor_stats(stats_tensor<float>(DType::kFloat32, {})).finite);
  EXPECT_FALSE(tensor_stats(stats_tensor<float>(DType::kFloat32, {NAN, INFINITY})).finite);
  const TensorStats one = tensor_stats(stats_tensor<std::int64_t>(DType::kInt64, {7}));
  EXPECT_EQ(one.finite->std, 0);
  EXPECT_EQ(one.finite->histogram.front(), 1);
  const double most = 1.7e308;
  const TensorStats wide = tensor_stats(stats_tensor<double>(DType::kFloat64, {-most, most}));
  EXPECT_EQ(wide.finite->histogram.front(), 1);
  EXPECT_EQ(wide.finite->histogram.back(), 1);
}

TEST(TensorStatsTest, ComplexNumbersCountByMagnitudeAndPackedOnesEach) {
  const TensorStats complex = tensor_stats(stats_tensor<float>(DType::kComplex64, {3, 4, 0, 0}));
  EXPECT_EQ(complex.count, 2);
  EXPECT_EQ(complex.zeros, 1);
  EXPECT_DOUBLE_EQ(complex.finite->max, 5);
  const TensorStats packed =
      tensor_stats(stats_tensor<std::uint8_t>(DType::kFloat4E2M1FNx2, {0x71, 0xA0}));
  EXPECT_EQ(packed.count, 4);
  EXPECT_EQ(packed.finite->max, 6);
}

TEST(TensorStatsTest, SparklineIsHighestWhereMostAre) {
  std::array<std::uint64_t, kHistogramBins> bins = {};
  bins[1] = 1;
  bins[2] = 1000;
  bins[3] = 500;
  EXPECT_EQ(sparkline(bins), " ▁█▄            ");
}

}  // namespace
}  // namespace cairn::cli
