// `cairn curves`: what it reads from logs, and what it draws.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <sstream>

#include <nlohmann/json.hpp>

#include "cli/runs/plot.h"
#include "cli/runs/run_log.h"
#include "event_bytes.h"
#include "run_tool.h"
#include "testing/temp_folder.h"

namespace cairn::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

class CurvesTest : public ::testing::Test {
 protected:
  std::string log(const std::string& name, const std::string& text) const {
    testing::write_file(folder_ / name, text);
    return folder_ / name;
  }
  testing::TempFolder folder_;
};

constexpr const char* kEntries =
    R"({"hyperparameter":"seed","value":17}
{"batch":1,"metric":"loss/train/total","value":2.5}
{"batch":1,"message":"saved a.pt"}
{"batch":2,"metric":"loss/train/total","value":null}
{"batch":2,"metric":"lr","value":0.1}
{"batch":3,"metric":"loss/train/total","value":1}
)";

TEST_F(CurvesTest, ReadsEachFormatOfFileLogger) {
  const RunLog entries = read_run_log(log("a.jsonl", kEntries));
  ASSERT_EQ(entries.metrics.at("loss/train/total").size(), 3U);
  EXPECT_TRUE(std::isnan(entries.metrics.at("loss/train/total")[1].value));
  EXPECT_THAT(entries.metrics.at("lr"), ElementsAre(MetricPoint{2, 0.1}));

  const RunLog batches =
      read_run_log(log("b.jsonl",
                       R"({"time":"2026-01-31T09:30:00Z","batch":1,"loss":2.5,"lr":1}
{"time":"2026-01-31T09:30:01Z","batch":2,"loss":1.5,"text":"a"}
)"));
  EXPECT_THAT(batches.metrics,
              ElementsAre(Pair("loss", ElementsAre(MetricPoint{1, 2.5}, MetricPoint{2, 1.5})),
                          Pair("lr", ElementsAre(MetricPoint{1, 1}))));

  const RunLog csv = read_run_log(log("c.csv",
                                      "time,batch,\"a,\"\"b\",lr\n"
                                      "2026-01-31T09:30:00Z,1,2.5,1\n"
                                      "2026-01-31T09:30:01Z,2,1.5,\n"));
  EXPECT_THAT(csv.metrics,
              ElementsAre(Pair("a,\"b", ElementsAre(MetricPoint{1, 2.5}, MetricPoint{2, 1.5})),
                          Pair("lr", ElementsAre(MetricPoint{1, 1}))));
  for (const RunLog* read : {&entries, &batches, &csv})
    EXPECT_EQ(read->passed_over, 0U);
}

TEST_F(CurvesTest, LaterLinesOfABatchCount) {
  std::string text;
  for (const auto& [batch, value] : {std::pair(1, 1), {2, 2}, {3, 3}, {2, 20}, {3, 30}})
    text += R"({"batch":)" + std::to_string(batch) + R"(,"metric":"loss","value":)" +
            std::to_string(value) + "}\n";
  EXPECT_THAT(read_run_log(log("a.jsonl", text)).metrics.at("loss"),
              ElementsAre(MetricPoint{1, 1}, MetricPoint{2, 20}, MetricPoint{3, 30}));
}

TEST_F(CurvesTest, ALineWithoutEndIsStillBeingWritten) {
  const RunLog read = read_run_log(log("a.jsonl", std::string(kEntries) + R"({"batch":4,"met)"));
  EXPECT_EQ(read.metrics.at("loss/train/total").back().batch, 3);
  EXPECT_EQ(read.passed_over, 0U);
}

TEST_F(CurvesTest, SaysWhatItPassesOver) {
  const std::string path = log("a.jsonl", std::string(kEntries) + "{\"batch\":\"x\"}\nTraceback\n");
  const Answer answer = run({"curves", path});
  EXPECT_EQ(answer.code, kDone);
  EXPECT_THAT(answer.err, HasSubstr("passed over 2 lines of " + path +
                                    " that are not FileLogger's, the first is line 7"));
}

TEST_F(CurvesTest, AFileWithoutALineOfFileLoggerIsNoLog) {
  const auto refusal = [&](const std::string& text) {
    const Answer answer = run({"curves", log("a.log", text)});
    EXPECT_EQ(answer.code, kFailed) << text;
    EXPECT_EQ(answer.out, "") << text;
    return answer.err;
  };
  EXPECT_THAT(refusal("{\"a\":1}\n[2]\n"), HasSubstr("no line is one that FileLogger writes"));
  EXPECT_THAT(refusal("batch,loss\nx,1\n"), HasSubstr("no line is one that FileLogger writes"));
  EXPECT_THAT(refusal("hello"), HasSubstr("it begins with neither a JSON object nor a row"));
  // Nothing was logged yet.
  for (const char* text : {"", "batch,loss\n", "batch,loss", "{\"batch\""})
    EXPECT_EQ(run({"curves", log("a.log", text)}).code, kDone) << text;
}

TEST_F(CurvesTest, ReadsEventFilesWhereThereIsNoLog) {
  const std::string file = log(events::named(0), events::scalar("loss/train", 0.5, 1));
  for (const std::string& place : {file, folder_.path()}) {
    const Answer answer = run({"curves", place, "--csv"});
    EXPECT_EQ(answer.out, "run,metric,batch,value\n" + place + ",loss/train,1,0.5\n") << answer.err;
  }
  log("logs-rank0.jsonl", kEntries);
  EXPECT_THAT(run({"curves", folder_.path(), "--csv"}).out, HasSubstr("logs-rank0.jsonl"));
}

TEST_F(CurvesTest, NamesTheFoldersOfSeveralRuns) {
  for (const char* name : {"a\x1b[2J", "b"}) {
    std::filesystem::create_directory(folder_ / name);
    log(name + ("/" + events::named(0)), events::scalar("loss", 1, 1));
  }
  const Answer answer = run({"curves", folder_.path()});
  EXPECT_EQ(answer.code, kFailed);
  EXPECT_THAT(answer.err, AllOf(HasSubstr("several folders in it have event files"),
                                HasSubstr("a\\x1b[2J, "), HasSubstr("Name one of them")));
  EXPECT_EQ(run({"curves", folder_ / "b"}).code, kDone);
}

TEST_F(CurvesTest, SaysWhichEventsItPassesOver) {
  const std::string good = events::scalar("loss", 1, 1);
  const std::string path = log(events::named(0), good + std::string(16, '\0'));
  const Answer answer = run({"curves", path});
  EXPECT_EQ(answer.code, kDone);
  EXPECT_THAT(answer.err,
              HasSubstr("passed over 1 records in the event files of " + path + ", the first in " +
                        events::named(0) + ": a checksum is wrong after byte"));
  const Answer damaged = run({"curves", log(events::named(0), "these are no records")});
  EXPECT_EQ(damaged.code, kDamaged);
  EXPECT_THAT(damaged.err, HasSubstr("nothing in the event files of " + path + " can be read"));
}

TEST_F(CurvesTest, FindsTheLogOfARunsFolder) {
  log("logs-rank1.jsonl", kEntries);
  EXPECT_EQ(read_run_log(folder_.path()).path, folder_ / "logs-rank1.jsonl");
  log("logs-rank0.jsonl", kEntries);
  log("other.csv", "batch\n");
  EXPECT_EQ(read_run_log(folder_.path()).path, folder_ / "logs-rank0.jsonl");
  testing::TempFolder empty;
  EXPECT_THAT(run({"curves", empty.path()}).err, HasSubstr("there is no log in the folder"));
  testing::write_file(empty / "a.csv", "batch\n");
  testing::write_file(empty / "b.csv", "batch\n");
  const Answer several = run({"curves", empty.path()});
  EXPECT_EQ(several.code, kFailed);
  EXPECT_THAT(several.err, HasSubstr("has several logs: a.csv, b.csv. Name one of them"));
  EXPECT_EQ(run({"curves", empty / "none.jsonl"}).code, kNotFound);
  EXPECT_EQ(run({"curves", log("notes.txt", "hello\nworld\n")}).code, kFailed);
}

TEST_F(CurvesTest, DrawsACurveBetweenItsLabels) {
  const std::vector<MetricPoint> points = {{0, 0}, {10, 5}, {20, 0}};
  PlotRange range;
  EXPECT_TRUE(range.is_empty());
  range.include(points);
  EXPECT_THAT(plot(points, range, {.columns = 20, .rows = 2}),
              ElementsAre("         5    ⡠⠊⠑⢄", "         0 ⣀⠔⠉    ⠑⢄", "           0      20"));
}

TEST_F(CurvesTest, ValuesThatAreNotFiniteLeaveAGap) {
  const double nan = std::nan("");
  const std::vector<MetricPoint> points = {{0, 1}, {1, nan}, {2, INFINITY}, {3, 1}};
  PlotRange range;
  range.include(points);
  EXPECT_EQ(range.lowest, 1);
  EXPECT_EQ(range.highest, 1);
  EXPECT_THAT(plot(points, range, {.columns = 20, .rows = 2}),
              ElementsAre("         1 ⡀       ⢀", "         1", "           0       3"));
}

TEST_F(CurvesTest, HugeValuesStayInThePicture) {
  const std::vector<MetricPoint> points = {{INT64_MIN, -1e308}, {INT64_MAX, 1e308}};
  PlotRange range;
  range.include(points);
  EXPECT_EQ(plot(points, range, {.columns = 20, .rows = 3}).size(), 4U);
}

TEST_F(CurvesTest, ShowsLossesAndMetricsFirstAndNamesTheOthers) {
  const std::string path = log("a.jsonl", kEntries);
  const Answer answer = run({"curves", path});
  EXPECT_THAT(answer.out,
              AllOf(HasSubstr("loss/train/total\n"),
                    HasSubstr("1 at batch 3, lowest 1, highest 2.5"), Not(HasSubstr("lr"))));
  EXPECT_THAT(answer.err, HasSubstr("--metric shows these, too: lr"));
  EXPECT_THAT(run({"curves", path, "--metric", "l?"}).out,
              AllOf(HasSubstr("lr\n"), Not(HasSubstr("loss"))));
  const Answer unknown = run({"curves", path, "--metric", "accuracy"});
  EXPECT_EQ(unknown.code, kNotFound);
  EXPECT_THAT(unknown.err, HasSubstr("There are: loss/train/total, lr"));
}

TEST_F(CurvesTest, SeveralRunsHaveTheSameAxes) {
  const std::string a = log("a.jsonl", R"({"batch":0,"loss":4}
{"batch":1,"loss":2}
)");
  const std::string b = log("b.jsonl", R"({"batch":0,"loss":1}
{"batch":9,"loss":0}
)");
  const std::string out = run({"curves", a, b}).out;
  EXPECT_THAT(out, AllOf(HasSubstr(a), HasSubstr(b)));
  std::size_t labels = 0;
  for (std::size_t at = out.find("\n         4"); at != std::string::npos;
       at = out.find("\n         4", at + 1))
    ++labels;
  EXPECT_EQ(labels, 2U);
}

TEST_F(CurvesTest, PrintsPointsForOtherPrograms) {
  const std::string path = log("a.jsonl", kEntries);
  EXPECT_EQ(run({"curves", path, "--csv"}).out,
            "run,metric,batch,value\n" + path + ",loss/train/total,1,2.5\n" + path +
                ",loss/train/total,2,\n" + path + ",loss/train/total,3,1\n");
  const auto answer = nlohmann::json::parse(run({"curves", path, "--metric", "*", "--json"}).out);
  const auto& metrics = answer.at("runs").at(0).at("metrics");
  EXPECT_EQ(metrics.at("lr").at("batches"), nlohmann::json({2}));
  EXPECT_EQ(metrics.at("loss/train/total").at("values"), nlohmann::json({2.5, nullptr, 1.0}));
}

TEST_F(CurvesTest, NamesFromALogCannotMoveTheCursor) {
  const std::string path = log("a.jsonl", R"({"batch":1,"loss/\u001b[2J":1}
)");
  const Answer answer = run({"curves", path});
  EXPECT_THAT(answer.out + answer.err, Not(HasSubstr("\x1b")));
  EXPECT_THAT(answer.out, HasSubstr("loss/\\x1b[2J"));
}

TEST_F(CurvesTest, NamesFromEventFilesCannotMoveTheCursor) {
  const std::string evil = "loss/\x1b[2J\x1b]0;owned\x07\r\nmore\x7f\u009b\xff";
  std::filesystem::create_directory(folder_ / evil.substr(5));
  const std::string path =
      log(evil.substr(5) + "/" + events::named(0, evil.substr(5)),
          events::scalar(evil, 1, 1) + events::scalar(evil + "b", 1, 1) + "0123456789abcdef");
  for (const char* option : {"--csv", "--json", "--quiet", "--color"}) {
    std::vector<std::string> command = {"curves", path, folder_ / evil.substr(5), option};
    if (option == std::string("--color")) command.emplace_back("always");
    const Answer answer = run(command);
    EXPECT_EQ(answer.code, kDone) << answer.err;
    const std::string all = answer.out + answer.err;
    for (const char* part : {"\x1b[2J", "\x1b]", "\x07", "\r", "\x7f", "\u009b", "\xff", "\nmore"})
      EXPECT_THAT(all, Not(HasSubstr(part))) << option;
  }
}

}  // namespace
}  // namespace cairn::cli
