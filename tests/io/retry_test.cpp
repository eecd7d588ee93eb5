#include "io/threads/retry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "testing/message_of.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

// A store that fails for a time, and a clock that only advances in pauses.
class Outage {
 public:
  explicit Outage(milliseconds length) : length_(length) {}

  RetryPolicy policy(milliseconds patience) {
    return {
        .attempts = 3,
        .patience = patience,
        .patience_option = "save_store_patience",
        .on_retry = [this](const StorageError& e, milliseconds) { told.emplace_back(e.what()); },
        .random = [] { return 0.5; },
        .pause = [this](milliseconds pause) { now_ += pause; },
        .now = [this] { return std::chrono::steady_clock::time_point(now_); }};
  }

  int ask() {
    ++asked;
    if (now_ < length_) throw StorageError("no connection", 0, is_temporary);
    return 7;
  }

  milliseconds now() const { return now_; }

  std::vector<std::string> told;
  int asked = 0;
  bool is_temporary = true;

 private:
  milliseconds length_;
  milliseconds now_{0};
};

TEST(Retries, WithoutPatienceTheNumberOfAttemptsCounts) {
  Outage outage(minutes(5));
  const RetryPolicy policy = outage.policy(milliseconds(0));
  EXPECT_THAT(message_of<StorageError>([&] { with_retries(policy, [&] { return outage.ask(); }); }),
              HasSubstr("failed 3 times"));
  EXPECT_EQ(outage.asked, 3);
  EXPECT_EQ(outage.told.size(), 2U);
}

TEST(Retries, PatienceOutlastsAnOutageAndTellsOfEachRetry) {
  Outage outage(minutes(5));
  const RetryPolicy policy = outage.policy(minutes(30));
  EXPECT_EQ(with_retries(policy, [&] { return outage.ask(); }), 7);
  EXPECT_LT(outage.now(), minutes(5) + seconds(20));  // the longest pause after the outage
  EXPECT_EQ(outage.told.size() + 1, static_cast<std::size_t>(outage.asked));
}

TEST(Retries, WhenPatienceEndsTheErrorNamesTheOption) {
  Outage outage(minutes(60));
  const RetryPolicy policy = outage.policy(minutes(30));
  EXPECT_THAT(message_of<StorageError>([&] { with_retries(policy, [&] { return outage.ask(); }); }),
              AllOf(HasSubstr("failed for 1800 s"), HasSubstr("save_store_patience"),
                    HasSubstr("no connection")));
  EXPECT_LE(outage.now(), minutes(30));
}

TEST(Retries, NoPatienceWithWhatDoesNotPass) {
  Outage outage(minutes(5));
  outage.is_temporary = false;
  const RetryPolicy policy = outage.policy(minutes(30));
  EXPECT_THROW(with_retries(policy, [&] { return outage.ask(); }), StorageError);
  EXPECT_EQ(outage.asked, 1);
}

TEST(Retries, ProgressBeginsTheCountAnew) {
  Outage outage(minutes(5));
  const RetryPolicy policy = outage.policy(milliseconds(0));
  Retries retries(policy);
  for (int i = 0; i < 10; ++i) {
    try {
      outage.ask();
    } catch (StorageError& e) {
      ASSERT_NO_THROW(retries.pause_or_rethrow(e));
    }
    retries.reset();
  }
}

}  // namespace
}  // namespace cairn
