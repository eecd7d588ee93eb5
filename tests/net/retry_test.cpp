#include "net/retry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/net_time.h"
#include "testing/fake_clock.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

NetRetries policy_of(const std::shared_ptr<testing::FakeNetClock>& clock, double random) {
  return {.policy = {.attempts = 5,
                     .first_pause = milliseconds(100),
                     .longest_pause = milliseconds(300),
                     .random = [random] { return random; }},
          .clock = clock};
}

TEST(RetryTest, WaitsLongerEachTimeAndNotForEver) {
  const auto clock = std::make_shared<testing::FakeNetClock>();
  const NetRetries policy = policy_of(clock, 0);
  Attempts attempts(policy);
  for (int i = 1; i < 5; ++i) {
    EXPECT_TRUE(attempts.wait_for_next()) << i;
  }
  EXPECT_FALSE(attempts.wait_for_next());
  EXPECT_THAT(clock->slept(), ElementsAre(milliseconds(50), milliseconds(100), milliseconds(150),
                                          milliseconds(150)));
}

TEST(RetryTest, JitterIsHalfOfIt) {
  const auto clock = std::make_shared<testing::FakeNetClock>();
  const NetRetries policy = policy_of(clock, 0.999999);
  Attempts attempts(policy);
  EXPECT_TRUE(attempts.wait_for_next());
  EXPECT_THAT(clock->slept(), ElementsAre(milliseconds(99)));
}

TEST(RetryTest, TheServersWishIsGrantedUpToTheLongest) {
  const auto clock = std::make_shared<testing::FakeNetClock>();
  const NetRetries policy = policy_of(clock, 0);
  Attempts attempts(policy);
  EXPECT_TRUE(attempts.wait_for_next(milliseconds(200)));
  EXPECT_TRUE(attempts.wait_for_next(milliseconds(1)));
  EXPECT_TRUE(attempts.wait_for_next(std::chrono::hours(1)));
  EXPECT_THAT(clock->slept(), ElementsAre(milliseconds(200), milliseconds(100), milliseconds(300)));
}

TEST(RetryTest, ProgressBeginsAnew) {
  const auto clock = std::make_shared<testing::FakeNetClock>();
  const NetRetries policy = policy_of(clock, 0);
  Attempts attempts(policy);
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(attempts.wait_for_next());
    attempts.reset();
  }
}

TEST(RetryTest, RetryAfterIsSecondsOrADate) {
  const NetTime now = *parse_http_date("Fri, 24 May 2013 00:00:00 GMT");
  EXPECT_EQ(retry_after("7", now), milliseconds(7000));
  EXPECT_EQ(retry_after("Fri, 24 May 2013 00:00:05 GMT", now), milliseconds(5000));
  EXPECT_EQ(retry_after("Fri, 24 May 2013 00:00:05 GMT", now + std::chrono::hours(1)),
            milliseconds(0));
  for (const char* text : {"", "soon", "-1", "99999999999999999999"}) {
    EXPECT_EQ(retry_after(text, now), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace cairn
