// Reads the other parts of a run's log; curves_test.cpp has its curves.
#include "cli/runs/run_log.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "cairn/error.h"

#include "event_bytes.h"
#include "run_tool.h"
#include "testing/temp_folder.h"

namespace cairn::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

std::string loss_line(int batch) {
  return R"({"batch":)" + std::to_string(batch) + R"(,"metric":"loss","value":)" +
         std::to_string(batch) + "}\n";
}

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
  EXPECT_EQ(killed.end, SpanEnd::kNone);
  const RunSpan& ended = log.spans[1];
  EXPECT_EQ(ended.begin, noon(std::chrono::milliseconds(60'250)));
  EXPECT_EQ(ended.last, noon(std::chrono::minutes(2)));
  EXPECT_EQ(ended.first_batch, 1);
  EXPECT_EQ(ended.last_batch, 4);
  EXPECT_EQ(ended.end, SpanEnd::kFinished);
  EXPECT_EQ(log.spans[2].end, SpanEnd::kFailed);
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
      "2026-01-31T12:00:04.000Z,7,1\n");
  ASSERT_THAT(log.spans, SizeIs(1));
  EXPECT_EQ(log.spans[0].begin, noon({}));
  EXPECT_EQ(log.spans[0].last, noon(std::chrono::seconds(9)));
  EXPECT_EQ(log.spans[0].first_batch, 1);
  EXPECT_EQ(log.spans[0].last_batch, 7);
}

// The metrics of a GPU arrive some batches late: a row of an earlier batch is no start by itself.
TEST_F(RunLogTest, InACsvLogAMetricThatGoesBackIsAStart) {
  const RunLog log = read(
      "time,batch,loss,lr\n"
      "2026-01-31T12:00:00.000Z,1,,0.1\n"
      "2026-01-31T12:00:01.000Z,2,,0.1\n"
      "2026-01-31T12:00:02.000Z,1,3,\n"
      "2026-01-31T12:00:03.000Z,3,,0.1\n"
      "2026-01-31T13:00:00.000Z,2,,0.2\n"
      "2026-01-31T13:00:01.000Z,3,,0.2\n");
  ASSERT_THAT(log.spans, SizeIs(2));
  EXPECT_EQ(log.spans[0].last, noon(std::chrono::seconds(3)));
  EXPECT_EQ(log.spans[0].last_batch, 3);
  EXPECT_EQ(log.spans[1].begin, noon(std::chrono::hours(1)));
  EXPECT_EQ(log.spans[1].first_batch, 2);
  EXPECT_EQ(log.spans[1].last_batch, 3);
  EXPECT_EQ(log.entries, 6U);
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

constexpr const char* kTimedMessages =
    R"({"time":"2026-01-31T12:00:00.000Z","batch":0,"event":"fit_start",)"
    R"("max_duration":"2ep","dataloader_len":45}
{"time":"2026-01-31T12:00:07.000Z","batch":3,"message":"saved a.pt  1 KiB  0.1 s"}
{"time":"2026-01-31T12:00:08.000Z","batch":3,"message":"uploaded a.pt"}
{"batch":4,"message":"warning: a save failed: the disk is full"}
{"batch":4,"message":"warning: an earlier save failed: the disk is full"}
{"time":"2026-01-31T12:00:09.000Z","batch":4,"message":"time: 9 s for 4 batches: data 3 %"}
)";

TEST_F(RunLogTest, MessagesSayWhatBecameOfSavesAndWhenTheRunWasAlive) {
  const RunLog log = read(kTimedMessages);
  ASSERT_THAT(log.spans, SizeIs(1));
  EXPECT_EQ(log.spans[0].max_duration, "2ep");
  EXPECT_EQ(log.spans[0].dataloader_len, 45);
  EXPECT_EQ(log.spans[0].last, noon(std::chrono::seconds(9)));
  EXPECT_EQ(log.spans[0].last_batch, 4);
  EXPECT_EQ(log.saves, (SaveCounts{.saved = 1, .failed = 2, .uploaded = 1}));
  EXPECT_EQ(log.times, "time: 9 s for 4 batches: data 3 %");
  EXPECT_EQ(log.messages[0].time, noon(std::chrono::seconds(7)));
  EXPECT_EQ(log.messages[2].time, std::nullopt);
}

// --- A log that is still written ----------------------------------------------------------------

struct RunLogReaderTest : RunLogTest {
  // Returns whether the reader saw a change.
  bool write(const std::string& text) {
    testing::write_file(folder_ / "log.jsonl", text);
    return reader_.update();
  }
  const std::vector<MetricPoint>& losses() const { return reader_.log().metrics.at("loss"); }

  RunLogReader reader_{folder_ / "log.jsonl"};
};

TEST_F(RunLogReaderTest, ReadsWhatWasAdded) {
  EXPECT_THROW(reader_.update(), NotFoundError);
  std::string text = loss_line(1);
  EXPECT_TRUE(write(text));
  EXPECT_FALSE(reader_.update());
  text += loss_line(2) + "Traceback\n";
  EXPECT_TRUE(write(text));
  EXPECT_THAT(losses(), ElementsAre(MetricPoint{1, 1}, MetricPoint{2, 2}));
  EXPECT_EQ(reader_.log().first_passed_over, 3U);
  // A line without an end waits for the rest of it.
  const std::string line = loss_line(3);
  EXPECT_FALSE(write(text + line.substr(0, 9)));
  EXPECT_TRUE(write(text + line));
  EXPECT_EQ(losses().size(), 3U);
  EXPECT_EQ(reader_.log().passed_over, 1U);
}

TEST_F(RunLogReaderTest, ALogThatIsAnotherIsReadAnew) {
  EXPECT_TRUE(write(loss_line(1) + loss_line(2)));
  EXPECT_TRUE(write(loss_line(7)));  // shorter
  EXPECT_THAT(losses(), ElementsAre(MetricPoint{7, 7}));
  EXPECT_TRUE(write(loss_line(1) + loss_line(8)));  // longer, with another beginning
  EXPECT_THAT(losses(), ElementsAre(MetricPoint{1, 1}, MetricPoint{8, 8}));
  EXPECT_TRUE(write(loss_line(1) + loss_line(9) + loss_line(10)));  // another end of what was read
  EXPECT_EQ(losses().size(), 3U);
  EXPECT_EQ(losses()[1], (MetricPoint{9, 9}));
}

TEST_F(RunLogReaderTest, ANewColumnOfACsvFileIsSeen) {
  EXPECT_TRUE(write("batch,loss\n1,4\n2,3\n"));
  EXPECT_TRUE(write("batch,loss,lr\n1,4,\n2,3,\n3,2,0.1\n"));
  EXPECT_EQ(losses().size(), 3U);
  EXPECT_THAT(reader_.log().metrics.at("lr"), ElementsAre(MetricPoint{3, 0.1}));
  EXPECT_EQ(reader_.log().passed_over, 0U);
}

TEST_F(RunLogReaderTest, AFileThatIsNoLogStaysOne) {
  EXPECT_THROW(write("hello\nworld\n"), UsageError);
  EXPECT_THROW(write("hello\nworld\nagain\n"), UsageError);
  EXPECT_TRUE(write(loss_line(1)));
}

TEST_F(RunLogReaderTest, WhatIsNotThereYetMayBecomeAnyLog) {
  RunLogReader file(folder_ / events::named(0));
  RunLogReader folder(folder_ / "run");
  EXPECT_THROW(file.update(), NotFoundError);
  EXPECT_THROW(folder.update(), NotFoundError);
  EXPECT_FALSE(file.has_log() || folder.has_log());
  std::filesystem::create_directory(folder_ / "run");
  EXPECT_THROW(folder.update(), NotFoundError);
  for (const char* place : {"", "run/"})
    testing::write_file(folder_ / (place + events::named(0)), events::scalar("loss", 1, 1));
  EXPECT_TRUE(file.update());
  EXPECT_TRUE(folder.update());
  EXPECT_EQ(folder.log().path, folder_ / "run");
  EXPECT_TRUE(file.has_log() && folder.has_log());
}

TEST_F(RunLogReaderTest, EventFilesAreReadOnAfterTheReaderHasMoved) {
  const std::string path = folder_ / events::named(0);
  const std::string first = events::scalar("loss", 1, 1);
  testing::write_file(path, first);
  RunLogReader early(folder_.path());
  EXPECT_TRUE(early.update());
  EXPECT_FALSE(early.update());
  RunLogReader reader = std::move(early);
  testing::write_file(path, first + events::scalar("loss", 2, 2));
  EXPECT_TRUE(reader.update());
  EXPECT_THAT(reader.log().metrics.at("loss"), ElementsAre(MetricPoint{1, 1}, MetricPoint{2, 2}));
  EXPECT_GT(reader.modified(), noon({}) - std::chrono::years(10));
}

TEST_F(RunLogReaderTest, ALogStaysAsLongAsItsSuccessorCannotBeRead) {
  EXPECT_TRUE(write(loss_line(1) + R"({"batch":1,"message":"old"})" + "\n"));
  EXPECT_THROW(write("no log\n"), UsageError);
  EXPECT_THAT(losses(), ElementsAre(MetricPoint{1, 1}));
  EXPECT_TRUE(write(R"({"batch":1,"message":"a"})"
                    "\n"
                    R"({"batch":2,"message":"b"})"
                    "\n"));
  EXPECT_THAT(reader_.log().messages, SizeIs(2));
  EXPECT_EQ(reader_.log().messages_added, 3U);  // the new log's are new
}

TEST_F(RunLogReaderTest, ALogThatIsBetterReplacesTheOneThatWasThere) {
  RunLogReader reader(folder_.path());
  testing::write_file(folder_ / events::named(0), events::scalar("loss", 1, 1));
  EXPECT_TRUE(reader.update());
  testing::write_file(folder_ / "logs-rank1.jsonl", loss_line(2));
  EXPECT_TRUE(reader.update());
  EXPECT_THAT(reader.log().metrics.at("loss"), ElementsAre(MetricPoint{2, 2}));
  EXPECT_FALSE(reader.update());
  testing::write_file(folder_ / "logs-rank0.jsonl", loss_line(3));
  EXPECT_TRUE(reader.update());
  EXPECT_EQ(reader.log().path, folder_ / "logs-rank0.jsonl");
  EXPECT_THAT(reader.log().metrics.at("loss"), ElementsAre(MetricPoint{3, 3}));
  testing::write_file(folder_ / "another.jsonl", loss_line(4));
  EXPECT_FALSE(reader.update());
}

TEST_F(RunLogReaderTest, OnlyFilesThatAreLogsCount) {
  std::filesystem::create_directory(folder_ / "folder.jsonl");
  ASSERT_EQ(mkfifo((folder_ / "pipe.jsonl").c_str(), 0600), 0);
  testing::write_file(folder_ / "train.csv", "age,height\n1,2\n");
  testing::write_file(folder_ / "train.jsonl", "{\"text\":\"hello\"}\n");
  EXPECT_FALSE(has_run_log(folder_.path()));
  EXPECT_THROW(read_run_log(folder_.path()), NotFoundError);
  testing::write_file(folder_ / "elsewhere", loss_line(1));
  std::filesystem::create_symlink("elsewhere", folder_ / "log.jsonl");
  EXPECT_EQ(read_run_log(folder_.path()).path, folder_ / "log.jsonl");
  testing::write_file(folder_ / "other.jsonl", "");
  EXPECT_THROW(read_run_log(folder_.path()), UsageError);
}

TEST_F(RunLogTest, ABatchThatIsTooLargeIsNoNumber) {
  const RunLog log = read(R"({"batch":9223372036854775808,"metric":"loss","value":1})"
                          "\n"
                          R"({"batch":9223372036854775807,"metric":"loss","value":1})"
                          "\n");
  EXPECT_EQ(log.passed_over, 1U);
  EXPECT_EQ(log.metrics.at("loss")[0].batch, std::numeric_limits<std::int64_t>::max());
}

TEST_F(RunLogTest, ALineThatIsTooDeepIsPassedOver) {
  const auto hyperparameter = [](std::size_t depth) {
    return R"({"hyperparameter":"deep","value":)" + std::string(depth, '[') +
           std::string(depth, ']') + "}\n";
  };
  const RunLog log =
      read(hyperparameter(300'000) + hyperparameter(100) + loss_line(1) +
           R"({"hyperparameter":"text","value":"\"[[[["})" + "\n" + hyperparameter(99));
  EXPECT_EQ(log.passed_over, 2U);
  EXPECT_EQ(log.entries, 3U);
  EXPECT_EQ(log.hyperparameters.at("deep"), std::string(99, '[') + std::string(99, ']'));
}

TEST_F(RunLogReaderTest, ALineOfManyMegabytesIsPassedOverOnce) {
  const std::uintmax_t size = std::uintmax_t{150} << 20;
  testing::write_file(folder_ / "log.jsonl", "{");
  std::filesystem::resize_file(folder_ / "log.jsonl", size);  // a hole
  EXPECT_TRUE(reader_.update());
  EXPECT_EQ(reader_.log().passed_over, 1U);
  EXPECT_EQ(reader_.log().first_passed_over, 1U);
  std::ofstream(folder_ / "log.jsonl", std::ios::app) << "\n" << loss_line(1);
  EXPECT_TRUE(reader_.update());
  EXPECT_THAT(losses(), ElementsAre(MetricPoint{1, 1}));
  EXPECT_EQ(reader_.log().passed_over, 1U);
}

TEST_F(RunLogReaderTest, ReadsLinesThatAreLongerThanAPiece) {
  const std::string long_message =
      R"({"batch":1,"message":")" + std::string(std::size_t{9} << 20, 'x') + "\"}\n";
  const std::string text = loss_line(1) + long_message + loss_line(2);
  EXPECT_TRUE(write(text));
  EXPECT_EQ(losses().size(), 2U);
  EXPECT_EQ(reader_.log().messages.size(), 1U);
}

}  // namespace
}  // namespace cairn::cli
