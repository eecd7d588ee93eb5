#include "core/round_up.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace cairn {
namespace {

TEST(RoundUpTest, IsTheNextMultiple) {
  EXPECT_EQ(round_up(std::uint64_t{0}, 512), 0U);
  EXPECT_EQ(round_up(std::uint64_t{1}, 512), 512U);
  EXPECT_EQ(round_up(std::uint64_t{512}, 512), 512U);
  EXPECT_EQ(round_up(std::uint64_t{13}, 6), 18U);
}

TEST(RoundUpTest, OfAFileItDoesNotWrapAround) {
  constexpr auto kMax = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(checked_round_up(std::uint64_t{513}, 512), 1024U);
  EXPECT_EQ(checked_round_up(kMax - 511, 512), kMax - 511);
  EXPECT_THROW(checked_round_up(kMax, 512), CorruptError);
}

}  // namespace
}  // namespace cairn
