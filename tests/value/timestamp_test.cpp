#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>

#include "cairn/error.h"
#include "cairn/time.h"
#include "cairn/value.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Timestamp all_different() {
  return {.iteration = 1,
          .epoch = 2,
          .batch = 3,
          .sample = 4,
          .token = 5,
          .epoch_in_iteration = 6,
          .token_in_iteration = 7,
          .batch_in_epoch = 8,
          .sample_in_epoch = 9,
          .token_in_epoch = 10,
          .total_wct = {.days = 1, .seconds = 2, .microseconds = 3},
          .iteration_wct = {.seconds = 4},
          .epoch_wct = {.seconds = 5},
          .batch_wct = {.seconds = 6}};
}

std::string error_of(const Value& state) {
  try {
    Timestamp::from_value(state);
    return "no error";
  } catch (const MismatchError& e) {
    return e.what();
  }
}

TEST(TimestampTest, BatchAdvancesCountersAndClocks) {
  const Timestamp now = all_different().to_next_batch(32, 100, {.seconds = 2});
  EXPECT_EQ(now, (Timestamp{.iteration = 1,
                            .epoch = 2,
                            .batch = 4,
                            .sample = 36,
                            .token = 105,
                            .epoch_in_iteration = 6,
                            .token_in_iteration = 107,
                            .batch_in_epoch = 9,
                            .sample_in_epoch = 41,
                            .token_in_epoch = 110,
                            .total_wct = {.days = 1, .seconds = 4, .microseconds = 3},
                            .iteration_wct = {.seconds = 6},
                            .epoch_wct = {.seconds = 7},
                            .batch_wct = {.seconds = 2}}));
}

TEST(TimestampTest, EpochStartsItsOwnCountersAgain) {
  Timestamp expected = all_different();
  expected.epoch = 3;
  expected.epoch_in_iteration = 7;
  expected.batch_in_epoch = expected.sample_in_epoch = expected.token_in_epoch = 0;
  expected.epoch_wct = expected.batch_wct = {};
  EXPECT_EQ(all_different().to_next_epoch(), expected);
}

TEST(TimestampTest, IterationStartsItsOwnCountersAndTheEpochsAgain) {
  Timestamp expected = all_different();
  expected.iteration = 2;
  expected.epoch_in_iteration = expected.token_in_iteration = 0;
  expected.batch_in_epoch = expected.sample_in_epoch = expected.token_in_epoch = 0;
  expected.iteration_wct = expected.epoch_wct = expected.batch_wct = {};
  EXPECT_EQ(all_different().to_next_iteration(), expected);
}

TEST(TimestampTest, GetGivesTheCounterOfAUnit) {
  const Timestamp now = all_different();
  EXPECT_EQ(now.get(TimeUnit::kIteration), "1iter"_time);
  EXPECT_EQ(now.get(TimeUnit::kEpoch), "2ep"_time);
  EXPECT_EQ(now.get(TimeUnit::kBatch), "3ba"_time);
  EXPECT_EQ(now.get(TimeUnit::kSample), "4sp"_time);
  EXPECT_EQ(now.get(TimeUnit::kToken), "5tok"_time);
  EXPECT_EQ(now.get(TimeUnit::kSecond), "86402sec"_time);
  EXPECT_THROW(now.get(TimeUnit::kDuration), UsageError);
}

TEST(TimestampTest, ComparesWithATimeInTheTimesUnit) {
  const Timestamp now = all_different();
  EXPECT_TRUE(now < "3ep");
  EXPECT_TRUE(now >= "3ba");
  EXPECT_TRUE(now == "4sp");
  EXPECT_TRUE("3ep"_time > now);
  EXPECT_THROW(void(now < "0.5dur"), UsageError);
}

TEST(TimestampTest, StateHasComposersKeysInComposersOrderAndComesBack) {
  const Value state = all_different().state_dict();
  std::vector<std::string> keys;
  for (const auto& [key, value] : state.as_dict()) {
    keys.push_back(key.as_str());
  }
  EXPECT_THAT(
      keys, ElementsAre("iteration", "epoch", "batch", "sample", "token", "epoch_in_iteration",
                        "token_in_iteration", "batch_in_epoch", "sample_in_epoch", "token_in_epoch",
                        "total_wct", "iteration_wct", "epoch_wct", "batch_wct"));
  EXPECT_EQ(Timestamp::from_value(state), all_different());
}

TEST(TimestampTest, OldFilesWithoutClocksAndIterationsAreRead) {
  Value state = Dict{{"epoch", 1},          {"batch", 2},           {"sample", 3},
                     {"token", 4},          {"batch_in_epoch", 5},  {"sample_in_epoch", 6},
                     {"token_in_epoch", 7}, {"of_another_age", "x"}};
  EXPECT_EQ(Timestamp::from_value(state), (Timestamp{.epoch = 1,
                                                     .batch = 2,
                                                     .sample = 3,
                                                     .token = 4,
                                                     .batch_in_epoch = 5,
                                                     .sample_in_epoch = 6,
                                                     .token_in_epoch = 7}));
  for (const char* key : {"epoch", "batch", "sample", "token", "batch_in_epoch", "sample_in_epoch",
                          "token_in_epoch"}) {
    Value without = state;
    without.mutable_dict().erase(key);
    EXPECT_THAT(error_of(without), HasSubstr("\"" + std::string(key) + "\": expected a count"));
  }
}

TEST(TimestampTest, WrongTypesAreNamed) {
  const auto with = [](const char* key, Value value) {
    Value state = all_different().state_dict();
    state.mutable_dict().set(key, std::move(value));
    return error_of(state);
  };
  EXPECT_EQ(with("epoch", 1.0), "timestamp: \"epoch\": expected a count, found float");
  EXPECT_EQ(with("batch", -1), "timestamp: \"batch\": expected a count, found -1");
  EXPECT_EQ(with("iteration", "1"), "timestamp: \"iteration\": expected a count, found str");
  EXPECT_EQ(with("total_wct", 1), "timestamp: \"total_wct\": expected a timedelta, found int");
  EXPECT_EQ(error_of(List{}), "timestamp: expected a dict, found list");
}

TEST(TimestampTest, CountersThatLeave64BitsAreErrors) {
  const Timestamp end = {.sample = std::numeric_limits<std::int64_t>::max()};
  EXPECT_THROW(end.to_next_batch(1, 0, {}), UsageError);
}

TEST(TimeDeltaTest, IsNormalisedAsPythonDoes) {
  using std::chrono::microseconds;
  EXPECT_EQ(TimeDelta::of(microseconds(-1)),
            (TimeDelta{.days = -1, .seconds = 86399, .microseconds = 999999}));
  EXPECT_EQ(TimeDelta::of(std::chrono::hours(36)), (TimeDelta{.days = 1, .seconds = 43200}));
  EXPECT_EQ((TimeDelta{.seconds = 86399, .microseconds = 999999}) + TimeDelta{.microseconds = 2},
            (TimeDelta{.days = 1, .microseconds = 1}));
  EXPECT_EQ((TimeDelta{.days = 10, .microseconds = 1}).total_seconds(), 864000.000001);
}

TEST(TimeDeltaTest, SaturatesBeyondTheMicrosecondsOf64Bits) {
  const TimeDelta most = {.days = std::numeric_limits<std::int64_t>::max()};
  EXPECT_EQ(most.to_microseconds(), std::chrono::microseconds::max());
  EXPECT_EQ((TimeDelta{.days = -200'000'000}).to_microseconds(), std::chrono::microseconds::min());
  EXPECT_THROW(most + TimeDelta{.days = 1}, UsageError);
  for (const auto limit : {std::chrono::microseconds::min(), std::chrono::microseconds::max()}) {
    EXPECT_EQ(TimeDelta::of(limit).to_microseconds(), limit);
  }
}

RC_GTEST_PROP(TimeDeltaTest, AddsLikeMicroseconds, (std::int32_t a, std::int32_t b)) {
  const auto x = std::chrono::microseconds(std::int64_t{a} * 1'000'003);
  const auto y = std::chrono::microseconds(std::int64_t{b} * 977);
  RC_ASSERT(TimeDelta::of(x) + TimeDelta::of(y) == TimeDelta::of(x + y));
  RC_ASSERT(TimeDelta::of(x).to_microseconds() == x);
}

}  // namespace
}  // namespace cairn
