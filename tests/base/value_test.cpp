#include "cairn/value.h"

#include <gtest/gtest.h>

#include "cairn/error.h"

namespace cairn {
namespace {

TEST(ValueTest, CopiesBehaveLikeDeepCopies) {
  Value a = Dict{{"list", List{1, 2}}};
  Value b = a;
  b.mutable_dict()["list"].mutable_list().push_back(3);
  EXPECT_EQ(a, Value(Dict{{"list", List{1, 2}}}));
  EXPECT_EQ(b, Value(Dict{{"list", List{1, 2, 3}}}));
}

TEST(ValueTest, DictKeepsOrderAndComparesKeysAsPythonDoes) {
  Dict dict;
  dict.set("z", 1);
  dict.set(1, "int");
  dict.set(true, "replaces 1");
  dict.set(Tuple{{1, 2}}, "tuple");
  ASSERT_EQ(dict.size(), 3U);
  EXPECT_EQ(dict.begin()->first, Value("z"));
  EXPECT_EQ(*dict.find(1.0), Value("replaces 1"));
  EXPECT_EQ(*dict.find(Tuple{{1, 2}}), Value("tuple"));
  EXPECT_THROW(dict.set(List{}, 1), UsageError);
}

TEST(ValueTest, LargeDictsFindEveryKeyAlsoAfterErasing) {
  Dict dict;
  for (int i = 0; i < 1000; ++i) {
    dict.set("key" + std::to_string(i), i);
  }
  EXPECT_TRUE(dict.erase("key500"));
  EXPECT_FALSE(dict.erase("key500"));
  for (int i = 0; i < 1000; ++i) {
    const Value* found = dict.find("key" + std::to_string(i));
    EXPECT_EQ(found == nullptr, i == 500) << i;
    if (found != nullptr) {
      EXPECT_EQ(found->as_int(), i);
    }
  }
}

TEST(ValueTest, KeysThatAreMultiplesOfAPowerOfTwoAreFoundQuickly) {
  Dict dict;
  for (std::int64_t i = 0; i < 100'000; ++i) {
    dict.set(i << 20, i);  // quadratic, and so minutes, if all began at one slot
  }
  EXPECT_EQ(*dict.find(std::int64_t{99'999} << 20), Value(99'999));
}

TEST(ValueTest, IntegersBeyondInt64AreExact) {
  const Value v = std::uint64_t{18446744073709551615U};
  ASSERT_EQ(v.kind(), Kind::kBigInt);
  EXPECT_EQ(v.get_if<BigInt>()->decimal(), "18446744073709551615");
  EXPECT_EQ((BigInt{std::string("\0\0\0\0\0\0\0\0\xff", 9)}.decimal()), "-18446744073709551616");
}

TEST(ValueTest, MissingKeyIsNamedWithThoseThatExist) {
  const Value v = Dict{{"a", 1}, {"b", 2}};
  try {
    v.at("c");
    FAIL() << "no error";
  } catch (const NotFoundError& e) {
    EXPECT_STREQ(e.what(), "no key \"c\"; there are: a, b");
  }
}

TEST(ValueTest, PathsReachDictsListsAndTuples) {
  const Value v = Dict{{"state", Dict{{"list", List{Tuple{{7, 8}}}}}}};
  ASSERT_NE(find_path(v, "state/list/0/1"), nullptr);
  EXPECT_EQ(*find_path(v, "state/list/0/1"), Value(8));
  EXPECT_EQ(find_path(v, "state/list/1"), nullptr);
  EXPECT_EQ(find_path(v, "state/x"), nullptr);
}

SparseTensor sparse_of(const std::string& indices, const std::string& values) {
  const auto bytes = [](const std::string& text) {
    const auto owner = std::make_shared<const std::string>(text);
    return SharedBytes{as_bytes(*owner), owner};
  };
  SparseTensor sparse;
  sparse.shape = {9};
  sparse.indices = make_tensor(DType::kInt64, {1, 1}, bytes(indices));
  sparse.values = make_tensor(DType::kUInt8, {1}, bytes(values));
  return sparse;
}

TEST(ValueTest, PartsOfSparseTensorsAreListedAmongTheTensors) {
  const Value root = Dict{{"a", sparse_of("12345678", "x")}};
  const auto tensors = tensors_of(root);
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_EQ(tensors[0].first, "a/indices");
  EXPECT_EQ(tensors[1].first, "a/values");
  EXPECT_EQ(tensors[1].second, &root.at("a").as_sparse().values);
}

TEST(ValueTest, SparseTensorsAreEqualByTheirParts) {
  const Value sparse = sparse_of("12345678", "x");
  EXPECT_EQ(sparse, Value(sparse_of("12345678", "x")));
  EXPECT_FALSE(sparse == Value(sparse_of("12345679", "x")));
  EXPECT_FALSE(sparse == Value(sparse_of("12345678", "y")));
  SparseTensor larger = sparse_of("12345678", "x");
  larger.shape = {10};
  EXPECT_FALSE(sparse == Value(larger));
  EXPECT_THROW(hash_value(sparse), UsageError);
}

TEST(ValueTest, QuantizedTensorsAreEqualWhenTheirIntegersStandForTheSame) {
  TensorView a = sparse_of("12345678", "x").values;
  TensorView b = a;
  a.quantizer = std::make_shared<const Quantizer>(Quantizer{.scale = 0.5});
  EXPECT_FALSE(Value(a) == Value(b));
  b.quantizer = std::make_shared<const Quantizer>(Quantizer{.scale = 0.5});
  EXPECT_EQ(Value(a), Value(b));
  b.quantizer = std::make_shared<const Quantizer>(Quantizer{.scale = 0.5, .zero_point = 1});
  EXPECT_FALSE(Value(a) == Value(b));
}

}  // namespace
}  // namespace cairn
