#include "checkpoint/convert/drop_foreign.h"

#include <gtest/gtest.h>

#include "cairn/foreign.h"

namespace cairn {
namespace {

Value foreign() {
  return Value(std::make_shared<const Foreign>(Foreign{.module = "os", .name = "system"}));
}

TEST(DropForeign, EntriesAndItemsOfSetsGoAndListsKeepTheirPlaces) {
  const Value tree = Dict{{"a", foreign()}, {"list", List{1, foreign(), 3}}, {"b", 2}};
  const WithoutForeign result = drop_foreign(tree);
  EXPECT_EQ(result.value, Value(Dict{{"list", List{1, None{}, 3}}, {"b", 2}}));
  ASSERT_EQ(result.dropped.size(), 2U);
  EXPECT_EQ(result.dropped[0].first, "a");
  EXPECT_EQ(result.dropped[1].first, "list/1");
}

// Empty containers have no identity, so no empty container is taken for another one.
TEST(DropForeign, EmptyContainersStayWhatTheyAre) {
  for (const Kind first : {Kind::kList, Kind::kTuple, Kind::kSet, Kind::kDict}) {
    const Value tree = Dict{{"gone", foreign()},
                            {"first", empty_container(first)},
                            {"list", empty_container(Kind::kList)},
                            {"tuple", empty_container(Kind::kTuple)},
                            {"set", empty_container(Kind::kSet)},
                            {"dict", empty_container(Kind::kDict)}};
    const Value result = drop_foreign(tree).value;
    EXPECT_EQ(result.at("first").kind(), first);
    EXPECT_EQ(result.at("list").kind(), Kind::kList);
    EXPECT_EQ(result.at("tuple").kind(), Kind::kTuple);
    EXPECT_EQ(result.at("set").kind(), Kind::kSet);
    EXPECT_EQ(result.at("dict").kind(), Kind::kDict);
  }
}

TEST(DropForeign, WhatIsOneObjectStaysOne) {
  const Value shared = List{1, 2};
  const Value tree = Dict{{"gone", foreign()}, {"a", shared}, {"b", shared}};
  const Value result = drop_foreign(tree).value;
  EXPECT_EQ(result.at("a").identity(), result.at("b").identity());
}

}  // namespace
}  // namespace cairn
