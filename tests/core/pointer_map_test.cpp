#include "core/pointer_map.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace cairn {
namespace {

TEST(PointerMapTest, FindsWhatWasAddedAndNothingElse) {
  const std::vector<int> objects(10'000);
  PointerMap<std::size_t> map;
  EXPECT_EQ(map.find(&objects[0]), nullptr);
  for (std::size_t i = 0; i < objects.size(); i += 2) {
    const auto [number, is_new] = map.try_emplace(&objects[i]);
    EXPECT_TRUE(is_new);
    EXPECT_EQ(*number, 0u);
    *number = i;
  }
  EXPECT_EQ(map.size(), objects.size() / 2);
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const std::size_t* number = map.find(&objects[i]);
    ASSERT_EQ(number != nullptr, i % 2 == 0) << i;
    if (number == nullptr) continue;
    EXPECT_EQ(*number, i);
  }
  EXPECT_FALSE(map.try_emplace(&objects[4]).second);
  EXPECT_EQ(map.size(), objects.size() / 2);
}

TEST(PointerMapTest, NullIsAKeyLikeOthers) {
  PointerMap<int> map(3);
  EXPECT_EQ(map.find(nullptr), nullptr);
  *map.try_emplace(nullptr).first = 7;
  ASSERT_NE(map.find(nullptr), nullptr);
  EXPECT_EQ(*map.find(nullptr), 7);
  EXPECT_FALSE(map.try_emplace(nullptr).second);
}

TEST(PointerMapTest, ErasingLetsGoOfValuesAndKeepsTheOthers) {
  const std::vector<int> objects(1000);
  PointerMap<std::shared_ptr<int>> map;
  const auto even = std::make_shared<int>(0);
  const auto odd = std::make_shared<int>(1);
  for (std::size_t i = 0; i < objects.size(); ++i) {
    *map.try_emplace(&objects[i]).first = i % 2 == 0 ? even : odd;
  }
  map.erase_if([](const std::shared_ptr<int>& value) { return *value == 1; });
  EXPECT_EQ(map.size(), objects.size() / 2);
  EXPECT_EQ(odd.use_count(), 1);
  EXPECT_EQ(even.use_count(), 1 + static_cast<long>(objects.size() / 2));
  for (std::size_t i = 0; i < objects.size(); ++i) {
    EXPECT_EQ(map.find(&objects[i]) != nullptr, i % 2 == 0) << i;
  }
}

}  // namespace
}  // namespace cairn
