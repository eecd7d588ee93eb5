// How much a tree shows, which may be far more than it holds.
#include "value/shown_bytes.h"

#include <gtest/gtest.h>

#include "cairn/foreign.h"
#include "cairn/sparse_tensor.h"

#include "testing/string_sink.h"

namespace cairn {
namespace {

using testing::shared;

TensorView four_bytes_as(Dims shape) {
  Dims strides(shape.size(), 0);
  return {.dtype = DType::kFloat32,
          .shape = std::move(shape),
          .strides = std::move(strides),
          .storage = storage_of(shared("four"))};
}

TEST(ShownBytesTest, ATensorCountsItsElementsAndNotItsStorage) {
  EXPECT_EQ(shown_bytes(four_bytes_as({})), 4);
  EXPECT_EQ(shown_bytes(four_bytes_as({1 << 14, 1 << 14})), std::uint64_t{1} << 30);
  EXPECT_EQ(shown_bytes(four_bytes_as({1 << 14, 0})), 0);
  const std::int64_t large = std::int64_t{1} << 40;
  EXPECT_EQ(shown_bytes(four_bytes_as({large, large})), ~std::uint64_t{0}) << "not less";
}

TEST(ShownBytesTest, APartCountsWhereverItStands) {
  Value level = Dict{{"text", std::string(1000, 'x')}};
  for (int i = 0; i < 50; ++i) {
    level = List{level, level};
  }
  EXPECT_GT(shown_bytes(level), std::uint64_t{1000} << 50) << "at once, and not after years";
}

TEST(ShownBytesTest, EveryKindOfPartCounts) {
  const Value tensor = four_bytes_as({1000});
  Dict with_attributes;
  with_attributes.set_attributes(List{tensor});
  auto object = std::make_shared<Foreign>();
  object->state = Dict{{"w", tensor}};
  for (const Value& value :
       {Value(List{tensor}), Value(Tuple{{tensor}}), Value(Dict{{"", tensor}}),
        Value(with_attributes), Value(std::shared_ptr<const Foreign>(object))}) {
    EXPECT_GE(shown_bytes(value), 4000U) << value.type_name();
  }
  EXPECT_EQ(shown_bytes(Bytes{.data = std::string(30, 'x')}), 30);
}

}  // namespace
}  // namespace cairn
