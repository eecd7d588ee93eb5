#include "cairn/tensor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <numeric>

#include "cairn/error.h"
#include "cairn/value.h"

#include "testing/counting_source.h"
#include "value/tensor/element_reader.h"

namespace cairn {
namespace {

SharedBytes floats(std::vector<float> v) {
  auto owner = std::make_shared<std::vector<float>>(std::move(v));
  return {std::as_bytes(std::span(*owner)), owner};
}

TEST(TensorTest, TransposedTensorIsCopiedInRowMajorOrder) {
  TensorView t = make_tensor(DType::kFloat32, {2, 3}, floats({0, 1, 2, 3, 4, 5}));
  t.shape = {3, 2};
  t.strides = {1, 3};
  EXPECT_FALSE(t.is_contiguous());
  const SharedBytes bytes = t.contiguous_bytes();
  const std::vector<float> expected = {0, 3, 1, 4, 2, 5};
  ASSERT_EQ(bytes.view.size(), 24U);
  std::vector<float> found(6);
  std::memcpy(found.data(), bytes.view.data(), 24);
  EXPECT_EQ(found, expected);
}

TEST(TensorTest, ReachingOutsideTheStorageIsCorrupt) {
  TensorView t = make_tensor(DType::kFloat32, {2, 3}, floats({0, 1, 2, 3, 4, 5}));
  t.storage_offset = 1;
  EXPECT_THROW(check_bounds(t), CorruptError);
  t.storage_offset = 0;
  t.strides = {std::int64_t{1} << 62, 4};
  EXPECT_THROW(check_bounds(t), CorruptError);
  t.shape = {0, 3};
  EXPECT_NO_THROW(check_bounds(t));
}

TEST(TensorTest, APartLiesInsideItsTensor) {
  TensorView t = make_tensor(DType::kFloat32, {2, 3}, floats({0, 1, 2, 3, 4, 5}));
  const auto with = [&](std::vector<std::int64_t> global_shape, std::vector<std::int64_t> offsets) {
    TensorView part = t;
    part.part =
        std::make_shared<const TensorPart>(TensorPart{std::move(global_shape), std::move(offsets)});
    return part;
  };
  EXPECT_NO_THROW(check_bounds(with({4, 3}, {2, 0})));
  EXPECT_THROW(check_bounds(with({4, 3}, {3, 0})), CorruptError);
  EXPECT_THROW(check_bounds(with({4, 3}, {-1, 0})), CorruptError);
  EXPECT_THROW(check_bounds(with({1, 3}, {0, 0})), CorruptError);
  EXPECT_THROW(check_bounds(with({4}, {2})), CorruptError);
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW(check_bounds(with({kMax, 3}, {kMax, 0})), CorruptError);
  t.shape = {0, 3};  // an empty part still has a place
  EXPECT_THROW(check_bounds(with({4, 3}, {5, 0})), CorruptError);
  EXPECT_NO_THROW(check_bounds(with({4, 3}, {4, 0})));
}

TEST(TensorTest, APartEqualsOnlyTheSamePart) {
  const TensorView whole = make_tensor(DType::kFloat32, {2}, floats({0, 1}));
  TensorView first = whole;
  first.part = std::make_shared<const TensorPart>(TensorPart{{4}, {0}});
  TensorView same = whole;
  same.part = std::make_shared<const TensorPart>(TensorPart{{4}, {0}});
  TensorView second = whole;
  second.part = std::make_shared<const TensorPart>(TensorPart{{4}, {2}});
  EXPECT_EQ(Value(first), Value(same));
  EXPECT_NE(Value(first), Value(second));
  EXPECT_NE(Value(first), Value(whole));
}

TEST(TensorTest, HugeTensorOfOneElementIsNotCopied) {
  TensorView t = make_tensor(DType::kFloat32, {1}, floats({1}));
  t.shape = {std::int64_t{1} << 60};
  t.strides = {0};
  EXPECT_NO_THROW(check_bounds(t));
  EXPECT_THROW(t.contiguous_bytes(), CorruptError);
  t.shape = {1000};
  EXPECT_EQ(t.contiguous_bytes().view.size(), 4000U);
}

TEST(TensorTest, ElementsAreReadByTheirNumberHoweverTheyLie) {
  std::vector<float> numbers(24);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  TensorView t = make_tensor(DType::kFloat32, {2, 3, 4}, floats(numbers));
  std::swap(t.shape[0], t.shape[2]);
  std::swap(t.strides[0], t.strides[2]);
  const SharedBytes all = t.contiguous_bytes();
  const ElementReader reader(t);
  for (std::size_t first = 0; first < 24; ++first) {
    std::vector<std::byte> read((24 - first) * 4);
    reader.read(first, read);
    EXPECT_EQ(as_text(read), as_text(all.view.subspan(first * 4)));
  }
}

TEST(TensorTest, PackedElementsAreCountedInTheShapeAndStoredSeveralToAByte) {
  TensorView t = make_tensor(DType::kQUInt4x2, {3, 3}, floats({0, 0}).part(0, 5));
  EXPECT_EQ(t.numel(), 9);
  EXPECT_EQ(byte_size(t), 5U);
  EXPECT_EQ(t.contiguous_bytes().view.size(), 5U);
  t.shape = {3, 4};
  t.strides = {4, 1};
  EXPECT_THROW(check_bounds(t), CorruptError);
  t.shape = {1};
  t.strides = {1};
  t.storage_offset = 1;  // half a byte further
  EXPECT_THROW(check_bounds(t), UnsupportedError);
}

TEST(TensorTest, EveryDTypeIsFoundByItsName) {
  for (int i = 0; i <= static_cast<int>(DType::kBits4x2); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(find_dtype(name(dtype)), dtype);
  }
  EXPECT_EQ(find_dtype("float31"), std::nullopt);
}

TEST(TensorTest, MakeTensorWantsExactlyTheBytesOfTheShape) {
  EXPECT_THROW(make_tensor(DType::kFloat32, {7}, floats({0, 1})), UsageError);
}

// Like the weights of a flat parameter, each of which is a part of one storage.
TEST(TensorTest, APartOfAStorageCostsThatPart) {
  const std::string bytes(1 << 20, 'x');
  const auto source = std::make_shared<const testing::CountingSource>(
      source_of({as_bytes(bytes), nullptr}, "a file"));
  const TensorView part = {.dtype = DType::kFloat32,
                           .shape = {10, 3},
                           .strides = {3, 1},
                           .storage_offset = 1000,
                           .storage = storage_of(source, 0, bytes.size())};
  EXPECT_EQ(part.contiguous_bytes().view.size(), 120U);
  EXPECT_EQ(source->bytes, 120U);
  TensorView spread = part;
  spread.strides = {30, 2};
  EXPECT_EQ(spread.contiguous_bytes().view.size(), 120U);
  EXPECT_EQ(source->bytes, 120U + (9 * 30 + 2 * 2 + 1) * 4);
  EXPECT_EQ(ElementReader(spread).numel(), 30U);
}

}  // namespace
}  // namespace cairn
