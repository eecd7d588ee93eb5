#include "cairn/value.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "cairn/error.h"

namespace cairn {
namespace {

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

TEST(ValueTest, TensorsAreKeysByTheirIdentity) {
  const Value a = sparse_of("12345678", "x").values;
  const Value equal = sparse_of("12345678", "x").values;
  const Value sparse = sparse_of("12345678", "x");
  ASSERT_EQ(a, equal);
  Dict dict;
  dict.set(a, 1);
  dict.set(equal, 2);
  dict.set(sparse, 3);
  dict.set(Tuple{{a, 0}}, 4);
  for (int i = 0; i < 20; ++i) {  // a dict compares few keys one by one, and hashes many
    const Value same = a;
    EXPECT_EQ(*dict.find(same), Value(1));
    EXPECT_EQ(*dict.find(equal), Value(2));
    EXPECT_EQ(*dict.find(sparse), Value(3));
    EXPECT_EQ(*dict.find(Tuple{{a, 0}}), Value(4));
    EXPECT_EQ(dict.find(Tuple{{equal, 0}}), nullptr);
    EXPECT_EQ(dict.find(Value(a.as_tensor())), nullptr);
    dict.set(i, i);
  }
  EXPECT_EQ(Value(Set{{a, equal}}), Value(Set{{equal, a}}));
  EXPECT_FALSE(Value(Set{{a}}) == Value(Set{{equal}}));
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

TEST(ValueTest, ADictWithPlaceReservedFindsItsFirstKeys) {
  Dict dict;
  dict.reserve(20);
  for (int i = 0; i < 20; ++i) {
    dict.set("key" + std::to_string(i), i);
    dict.set("key0", 0);
  }
  EXPECT_EQ(dict.size(), 20U);
  EXPECT_EQ(dict.at("key19"), Value(19));
  EXPECT_EQ(*dict.find("key0"), Value(0));
}

TEST(ValueTest, KeysThatAreMultiplesOfAPowerOfTwoAreFoundQuickly) {
  Dict dict;
  for (std::int64_t i = 0; i < 100'000; ++i) {
    dict.set(i << 20, i);  // quadratic (minutes) if all began at one slot
  }
  EXPECT_EQ(*dict.find(std::int64_t{99'999} << 20), Value(99'999));
}

TEST(ValueTest, IntegersBeyondInt64AreExact) {
  const Value v = std::uint64_t{18446744073709551615U};
  ASSERT_EQ(v.kind(), Kind::kBigInt);
  EXPECT_EQ(v.get_if<BigInt>()->text(), "18446744073709551615");
  EXPECT_EQ((BigInt{std::string("\0\0\0\0\0\0\0\0\xff", 9)}.text()), "-18446744073709551616");
}

std::string repeated(const std::string& text, std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) {
    all += text;
  }
  return all;
}

TEST(ValueTest, IntegersOfManyDigitsAreHexadecimal) {
  const auto text_of = [](std::size_t bytes) { return BigInt{std::string(bytes, '\x7f')}.text(); };
  EXPECT_EQ(text_of(1785).size(), 4299U);  // decimal digits
  EXPECT_EQ(text_of(1786), "0x" + repeated("7f", 1786));
  EXPECT_EQ(text_of(1 << 20).size(), 2 + (2U << 20));
  EXPECT_EQ(BigInt{std::string(2000, '\0') + "\xf0"}.text(), "-0x1" + std::string(4001, '0'));
}

// Returns the most keys, out of 100,000, whose hashes agree in the last 17 bits: about 10 by
// chance. Each of them is compared with all the others.
std::size_t largest_crowd(const std::function<Value(std::int64_t)>& key) {
  std::vector<Value> keys;  // all at once: some hash by their place in memory
  std::unordered_map<std::size_t, std::size_t> crowds;
  std::size_t largest = 0;
  for (std::int64_t i = 0; i < 100'000; ++i) {
    keys.push_back(key(i));
    largest = std::max(largest, ++crowds[hash_value(keys.back()) & 0x1FFFF]);
  }
  return largest;
}

TEST(ValueTest, KeysMadeToCollideDoNot) {
  constexpr std::size_t kByChance = 20;
  constexpr std::uint64_t kInverse = 0xf1de83e19937733d;  // of a multiplier that was used once
  const double nan = std::nan("");
  EXPECT_LT(largest_crowd([](auto i) { return i << 46; }), kByChance);
  EXPECT_LT(largest_crowd([](auto i) { return static_cast<std::int64_t>(i * kInverse); }),
            kByChance);
  EXPECT_LT(largest_crowd([](auto i) { return static_cast<double>(i) * 0x1p60; }), kByChance);
  EXPECT_LT(largest_crowd([](auto i) { return std::to_string(i << 20); }), kByChance);
  EXPECT_LT(largest_crowd([](auto i) { return Tuple{{i << 40, 0}}; }), kByChance);
  EXPECT_LT(largest_crowd([](auto i) { return Set{{i << 40, 0}, true}; }), kByChance);
  EXPECT_LT(largest_crowd([&](auto) { return Tuple{{nan}}; }), kByChance);
  EXPECT_LT(largest_crowd([&](auto) { return Set{{nan}, true}; }), kByChance);
  EXPECT_LT(largest_crowd([&](auto) { return std::complex<double>(0, nan); }), kByChance);
}

TEST(ValueTest, EveryNaNIsAKeyOfItsOwnAndFoundByNone) {
  Dict dict;
  for (int i = 0; i < 200'000; ++i) {  // quadratic (minutes) if each were compared with all others
    dict.set(std::nan(""), i);
  }
  dict.set(1.0, "one");
  EXPECT_EQ(dict.size(), 200'001U);
  EXPECT_EQ(dict.find(std::nan("")), nullptr);
  EXPECT_EQ(*dict.find(1), Value("one"));
  const Value key = Tuple{{std::nan(""), 1}};
  dict.set(key, "found by itself");
  dict.set(Tuple{{std::nan(""), 1}}, "another");
  EXPECT_EQ(*dict.find(key), Value("found by itself"));
}

TEST(ValueTest, SetsOfManyItemsAreComparedQuickly) {
  Set up;
  Set down;
  for (int i = 0; i < 200'000; ++i) {
    up.items.emplace_back(i);
    down.items.emplace_back(199'999 - i);
  }
  EXPECT_EQ(Value(up), Value(down));
  down.items.front() = -1;
  EXPECT_FALSE(Value(up) == Value(down));
}

TEST(ValueTest, AValueIsTwoWords) { EXPECT_EQ(sizeof(Value), 16U); }

TEST(ValueTest, EmptyContainersWithoutAnObjectAreContainers) {
  for (const Kind kind : {Kind::kList, Kind::kTuple, Kind::kSet, Kind::kDict}) {
    EXPECT_EQ(empty_container(kind).kind(), kind);
    EXPECT_EQ(empty_container(kind).identity(), nullptr);
  }
  EXPECT_EQ(empty_container(Kind::kList), Value(List{}));
  EXPECT_EQ(empty_container(Kind::kDict), Value(Dict{}));
  Value one = empty_container(Kind::kDict);
  const Value other = one;
  one.mutable_dict().set("a", 1);
  EXPECT_EQ(one, Value(Dict{{"a", 1}}));
  EXPECT_EQ(other, Value(Dict{}));
  EXPECT_THROW(empty_container(Kind::kInt), UsageError);
}

TEST(ValueTest, TensorsOfLongListsCostOnlyThemselves) {
  const Value root =
      List{List(1000, Value(1)), Dict{{"a", List{sparse_of("12345678", "x").values}}}};
  const auto tensors = tensors_of(root);
  ASSERT_EQ(tensors.size(), 1U);
  EXPECT_EQ(tensors[0].first, "1/a/0");
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
