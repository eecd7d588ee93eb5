#include "cairn/dims.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <list>
#include <numeric>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn {
namespace {

using Numbers = std::vector<std::int64_t>;

// What all of them are compared with: around what fits inside.
std::vector<Numbers> samples() {
  std::vector<Numbers> all;
  for (const std::size_t count : {0, 1, 2, 3, 4, 5, 6, 9, 64}) {
    Numbers numbers(count);
    std::iota(numbers.begin(), numbers.end(), 7);
    all.push_back(numbers);
  }
  return all;
}

static_assert(std::is_nothrow_move_constructible_v<Dims>);
static_assert(std::is_nothrow_move_assignable_v<Dims>);
static_assert(!std::is_convertible_v<std::string, Dims>);
static_assert(!std::is_convertible_v<std::size_t, Dims>);

TEST(DimsTest, HoldsWhatAVectorHolds) {
  for (const Numbers& numbers : samples()) {
    const Dims dims = numbers;
    EXPECT_EQ(dims.size(), numbers.size());
    EXPECT_EQ(dims.empty(), numbers.empty());
    EXPECT_EQ(dims, numbers);
    EXPECT_EQ(Numbers(dims), numbers);
    EXPECT_EQ(Dims(numbers.begin(), numbers.end()), numbers);
    EXPECT_EQ(Dims(std::span(numbers)), numbers);
    EXPECT_EQ(Numbers(dims.rbegin(), dims.rend()), Numbers(numbers.rbegin(), numbers.rend()));
    const std::list<int> of_others(numbers.begin(), numbers.end());
    EXPECT_EQ(Dims(of_others.begin(), of_others.end()), numbers);
    if (numbers.empty()) continue;
    EXPECT_EQ(dims.front(), numbers.front());
    EXPECT_EQ(dims.back(), numbers.back());
    EXPECT_EQ(dims[numbers.size() / 2], numbers[numbers.size() / 2]);
  }
  const Dims none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(Dims({4, 5}), (Numbers{4, 5}));
  EXPECT_EQ(Dims(6, 2), Numbers(6, 2));
  EXPECT_EQ(Dims(3), Numbers(3));
}

TEST(DimsTest, ACopyIsItsOwnAndWhatWasMovedFromIsEmpty) {
  for (const Numbers& numbers : samples()) {
    for (const Numbers& before : samples()) {
      const Dims from = numbers;
      Dims copied = before;
      copied = from;
      EXPECT_EQ(copied, numbers);
      Dims moved = before;
      moved = std::move(copied);
      EXPECT_EQ(moved, numbers);
      EXPECT_TRUE(copied.empty());  // NOLINT(bugprone-use-after-move): what is promised
      copied.push_back(1);
      EXPECT_EQ(copied, Numbers{1});
      EXPECT_EQ(moved, numbers);
      Dims made = std::move(moved);
      if (!made.empty()) made.front() = -1;
      EXPECT_EQ(from, numbers);
    }
  }
}

TEST(DimsTest, GrowsShrinksAndIsAssignedItsOwn) {
  for (const Numbers& numbers : samples()) {
    Dims dims;
    for (const std::int64_t number : numbers) {
      dims.push_back(number);
    }
    EXPECT_EQ(dims, numbers);
    Numbers expected = numbers;
    for (const std::size_t size : {3, 12, 5, 0, 2}) {
      dims.resize(size, 9);
      expected.resize(size, 9);
      EXPECT_EQ(dims, expected);
    }
    dims = numbers;
    const Dims& itself = dims;
    dims = itself;
    EXPECT_EQ(dims, numbers);
    if (numbers.size() < 2) continue;
    dims.assign(dims.begin() + 1, dims.end());
    EXPECT_EQ(dims, Numbers(numbers.begin() + 1, numbers.end()));
    EXPECT_EQ(dims.at(0), numbers[1]);
    EXPECT_THROW((void)dims.at(dims.size()), std::out_of_range);
    dims.pop_back();
    dims.reserve(20);
    const std::int64_t* const place = dims.data();
    dims.resize(20);
    EXPECT_EQ(dims.data(), place);
    EXPECT_TRUE(std::equal(numbers.begin() + 1, numbers.end() - 1, dims.cbegin()));
    dims.clear();
    EXPECT_EQ(dims.cbegin(), dims.cend());
    EXPECT_EQ(dims.emplace_back(5), 5);
    EXPECT_EQ(std::exchange(*dims.rbegin(), 6), 5);
    EXPECT_EQ(dims, Numbers{6});
  }
}

TEST(DimsTest, ComparesAsAVectorDoes) {
  const std::array<Numbers, 6> all = {Numbers{},     Numbers{1},    Numbers{1, 2},
                                      Numbers{1, 3}, Numbers{0, 9}, Numbers{1, 2, 3, 4, 5}};
  for (const Numbers& a : all) {
    for (const Numbers& b : all) {
      EXPECT_EQ(Dims(a) == Dims(b), a == b);
      EXPECT_EQ(Dims(a) <=> Dims(b), a <=> b);
    }
  }
}

TEST(DimsTest, MoreThanItCountsIsRefusedAndChangesNothing) {
  Dims dims = {1, 2, 3, 4, 5};
  EXPECT_THROW(dims.resize(std::size_t{1} << 32), std::length_error);
  EXPECT_THROW(dims.assign(std::size_t{1} << 32, 0), std::length_error);
  EXPECT_EQ(dims, (Numbers{1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace cairn
