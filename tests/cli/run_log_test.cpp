// Reads the other parts of a run's log; curves_test.cpp has its curves.
#include "cli/runs/run_log.h"

#include <gmock/gmock.h>

#include "run_tool.h"
#include "testing/temp_folder.h"

namespace cairn::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

struct RunLogTest : ::testing::Test {
  RunLog read(const std::string& text) const {
    testing::write_file(folder_ / "log.jsonl", text);
    return read_run_log(folder_ / "log.jsonl");
  }
  testing::TempFolder folder_;
};

std::chrono::system_clock::time_point noon(std::chrono::milliseconds after) {
  return std::chrono::sys_days(std::chrono::January / 31 / 2026) + std::chrono::hours(12) + after;
}

constexpr const char* kKilledAndResumed = R"({"hyperparameter":"lr","value":0.1}
{"time":"2026-01-31T12:00:00.000Z","batch":0,"event":"fit_start"}
{"batch":1,"metric":"loss","value":3}
{"batch":2,"metric":"loss","value":2}
{"hyperparameter":"lr","value":{"a":[1,"b"]}}
{"time":"2026-01-31T12:01:00.250Z","batch":1,"event":"fit_start"}
{"batch":2,"message":"saved \"a.pt\""}
{"time":"2026-01-31T12:02:00.000Z","batch":4,"event":"fit_end"}
{"time":"2026-01-31T12:03:00.000Z","batch":4,"event":"fit_start"}
{"time":"2026-01-31T12:03:01.000Z","batch":5,"event":"close"}
)";

TEST_F(RunLogTest, EventsSayWhenTheRunTrained) {
  const RunLog log = read(kKilledAndResumed);
  EXPECT_EQ(log.passed_over, 0U);
  ASSERT_THAT(log.spans, SizeIs(3));
  const RunSpan& killed = log.spans[0];
  EXPECT_EQ(killed.begin, noon({}));
  EXPECT_EQ(killed.last, killed.begin);
  EXPECT_EQ(killed.last_batch, 2);
  EXPECT_EQ(killed.end, "");
  const RunSpan& ended = log.spans[1];
  EXPECT_EQ(ended.begin, noon(std::chrono::milliseconds(60'250)));
  EXPECT_EQ(ended.last, noon(std::chrono::minutes(2)));
  EXPECT_EQ(ended.first_batch, 1);
  EXPECT_EQ(ended.last_batch, 4);
  EXPECT_EQ(ended.end, "fit_end");
  EXPECT_EQ(log.spans[2].end, "close");
}

TEST_F(RunLogTest, HasTheLastHyperparametersAndAllMessages) {
  const RunLog log = read(kKilledAndResumed);
  EXPECT_THAT(log.hyperparameters, ElementsAre(Pair("lr", R"({"a":[1,"b"]})")));
  ASSERT_THAT(log.messages, SizeIs(1));
  EXPECT_EQ(log.messages[0].text, "saved \"a.pt\"");
  EXPECT_EQ(log.messages[0].batch, 2);
}

TEST_F(RunLogTest, WithoutEventsTimesOfRowsTell) {
  const RunLog log = read(
      "time,batch,loss\n"
      "2026-01-31T12:00:00.000Z,1,3\n"
      "2026-01-31T12:00:09.000Z,7,2\n"
      "2026-01-31T12:00:04.000Z,6,1\n");
  ASSERT_THAT(log.spans, SizeIs(1));
  EXPECT_EQ(log.spans[0].begin, noon({}));
  EXPECT_EQ(log.spans[0].last, noon(std::chrono::seconds(9)));
  EXPECT_EQ(log.spans[0].first_batch, 1);
  EXPECT_EQ(log.spans[0].last_batch, 7);
}

TEST_F(RunLogTest, TimesThatAreNoneAreNotUsed) {
  for (const char* time : {"", "yesterday", "2026-02-31T12:00:00.000Z", "9999-01-01T00:00:00.000Z",
                           "0001-01-01T00:00:00.000Z", "2026-01-31 12:00:00.000Z",
                           "2026-01-31T12:00:00.000Z ", "2026-01-31T12:00:00.00-Z"}) {
    const RunLog log = read(R"({"time":")" + std::string(time) +
                            R"(","batch":1,"event":"fit_start"})"
                            "\n");
    EXPECT_THAT(log.spans, IsEmpty()) << time;
    EXPECT_EQ(log.passed_over, 0U) << time;
  }
}

TEST_F(RunLogTest, CurvesPassesOverEventsSilently) {
  const RunLog log = read(kKilledAndResumed);
  EXPECT_THAT(log.metrics, SizeIs(1));
  const Answer answer = run({"curves", folder_ / "log.jsonl", "--metric", "*"});
  EXPECT_EQ(answer.code, kDone);
  EXPECT_EQ(answer.err, "");
}

}  // namespace
}  // namespace cairn::cli
