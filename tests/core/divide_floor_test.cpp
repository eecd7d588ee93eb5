#include "core/divide_floor.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

namespace cairn {
namespace {

using Parts = std::pair<std::int64_t, std::int64_t>;

// Like Python's divmod().
Parts divided(std::int64_t count, std::int64_t per) {
  const std::int64_t quotient = divide_floor(count, per);
  return {quotient, count};
}

TEST(DivideFloorTest, LeavesARestThatIsNotNegative) {
  EXPECT_EQ(divided(125, 60), (Parts{2, 5}));
  EXPECT_EQ(divided(120, 60), (Parts{2, 0}));
  EXPECT_EQ(divided(0, 60), (Parts{0, 0}));
  EXPECT_EQ(divided(-1, 60), (Parts{-1, 59}));
  EXPECT_EQ(divided(-120, 60), (Parts{-2, 0}));
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(divided(kLeast, 1'000'000), (Parts{-9'223'372'036'855, 224'192}));
}

}  // namespace
}  // namespace cairn
