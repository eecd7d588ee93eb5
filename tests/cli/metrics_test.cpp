// `cairn metrics`, and what `cairn serve` answers at /metrics.
#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/serve/run_metrics.h"
#include "run_folder.h"
#include "run_tool.h"
#include "text_parts.h"

namespace cairn::cli {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using testing::read_file;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    lines.push_back(text.substr(begin, end - begin));
  EXPECT_EQ(begin, text.size()) << "the last line has no end";
  return lines;
}

struct MetricsTest : ::testing::Test {
  void write_log() const {
    folder_.write("logs-rank0.jsonl",
                  R"({"time":"2026-01-01T12:00:00.000Z","batch":0,"event":"fit_start",)"
                  R"("max_duration":"3ep","dataloader_len":50}
{"batch":20,"metric":"loss/train/total","value":0.25}
{"time":"2026-01-01T12:20:00.000Z","batch":20,"message":"saved a.pt"}
{"time":"2026-01-01T12:30:00.000Z","batch":20,"message":"warning: a save failed: disk full"}
)");
  }
  RunFolder folder_;
};

TEST_F(MetricsTest, SaysHowARunStands) {
  write_log();
  folder_.save(20);
  const Answer answer = run({"metrics", folder_.path()});
  EXPECT_EQ(answer.code, kDone) << answer.err;
  const std::string label = "{run=\"" + folder_.path() + "\"} ";
  for (const std::string& line :
       {"cairn_run_readable" + label + "1", "cairn_run_batch" + label + "20",
        "cairn_run_length_batches" + label + "150",
        "cairn_newest_good_checkpoint_batch" + label + "20", "cairn_checkpoints" + label + "1",
        "cairn_checkpoint_saves_total" + label + "1",
        "cairn_checkpoint_save_failures_total" + label + "1",
        "cairn_checkpoint_uploads_total" + label + "0",
        "cairn_run_state{run=\"" + folder_.path() + "\",state=\"training\"} 1",
        "cairn_run_state{run=\"" + folder_.path() + "\",state=\"killed\"} 0",
        "cairn_run_metric{run=\"" + folder_.path() + "\",name=\"loss/train/total\"} 0.25"}) {
    EXPECT_EQ(count_of(answer.out, "\n" + line + "\n"), 1U) << line << "\n" << answer.out;
  }
  EXPECT_THAT(answer.out, HasSubstr("# TYPE cairn_run_batch gauge\n"));
  EXPECT_THAT(answer.out, HasSubstr("# TYPE cairn_checkpoint_save_failures_total counter\n"));
}

TEST_F(MetricsTest, TheAgeIsThatOfTheNewestGoodCheckpoint) {
  RunStatus status{.name = "a"};
  const auto now = RunFolder::start();
  EXPECT_THAT(run_metrics({status}, now), Not(HasSubstr("\ncairn_newest_good_checkpoint_age")));
  status.newest = ListedCheckpoint{
      .name = "a.pt", .path = "a.pt", .modified = now - std::chrono::milliseconds(90'500)};
  EXPECT_THAT(run_metrics({status}, now),
              HasSubstr("\ncairn_newest_good_checkpoint_age_seconds{run=\"a\"} 90.5\n"));
}

TEST_F(MetricsTest, IsWrittenForACollector) {
  write_log();
  const std::string out = folder_ / "cairn.prom";
  ASSERT_EQ(run({"metrics", folder_.path(), "-o", out}).code, kDone);
  EXPECT_THAT(read_file(out), HasSubstr("cairn_run_batch{"));
  folder_.write("cairn.prom", "old");
  const Answer again = run({"metrics", folder_.path(), "-o", out});
  EXPECT_EQ(again.code, kDone) << again.err;
  EXPECT_EQ(again.out, "");
  EXPECT_THAT(read_file(out), HasSubstr("cairn_run_batch{"));
  EXPECT_THAT(run({"metrics", folder_.path(), "-o", folder_ / "cairn.txt"}).err,
              HasSubstr("ends with .prom"));
}

TEST_F(MetricsTest, ARunThatIsNotThereDoesNotHideTheOthers) {
  write_log();
  const Answer answer = run({"metrics", folder_ / "none", folder_.path()});
  EXPECT_EQ(answer.code, kNotFound);
  EXPECT_THAT(answer.err, HasSubstr(folder_ / "none"));
  EXPECT_EQ(count_of(answer.out, "cairn_run_readable{run=\"" + (folder_ / "none") + "\"} 0\n"), 1U);
  EXPECT_EQ(count_of(answer.out, folder_ / "none"), 1U) << "nothing else is known of it";
  EXPECT_THAT(answer.out, HasSubstr("cairn_run_batch{run=\"" + folder_.path() + "\"} 20\n"));
}

TEST_F(MetricsTest, ReadsALogAndCheckpointsElsewhere) {
  std::filesystem::create_directories(folder_ / "logs");
  folder_.write("logs/a.jsonl", "{\"batch\":7,\"metric\":\"loss\",\"value\":1}\n");
  folder_.save(10);
  const Answer answer =
      run({"metrics", folder_ / "logs/a.jsonl", "--checkpoints", folder_.path(), "--json"});
  const auto shown = nlohmann::json::parse(answer.out).at("runs").at(0);
  EXPECT_EQ(shown.at("batch"), 7);
  EXPECT_EQ(shown.at("checkpoints"), 1);
}

// --- The format ---------------------------------------------------------------------------------

TEST(RunMetricsTest, HostileNamesStayInTheirLabels) {
  const std::string evil = "a\"} 1\ncairn_run_batch{run=\"owned\"} 9\\\r\n\x1b[2J\x7f\xff\u2028";
  RunStatus status{.name = evil, .log = "log", .problem = evil};
  status.values.push_back({evil, {1, 2}});
  const std::string text = run_metrics({status}, {});
  EXPECT_THAT(
      lines_of(text),
      Each(MatchesRegex("# (HELP|TYPE) [a-z_]+ [ -~]+|"
                        "[a-z_]+\\{run=\"([^\"\\\\]|\\\\\\\\|\\\\\")*\""
                        "(,[a-z]+=\"([^\"\\\\]|\\\\\\\\|\\\\\")*\")?\\} [-+0-9.einfaNI]+")));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\x7f")), Not(HasSubstr("\xff")),
                          Not(HasSubstr("\ncairn_run_batch{run=\"owned"))));
}

TEST(RunMetricsTest, ValuesThatAreNotFiniteAreWrittenAsTheFormatSays) {
  RunStatus status{.name = "a"};
  const double infinity = std::numeric_limits<double>::infinity();
  status.values = {{"a", {1, NAN}}, {"b", {1, infinity}}, {"c", {1, -infinity}}, {"d", {1, 1e300}}};
  EXPECT_THAT(run_metrics({status}, {}),
              AllOf(HasSubstr("name=\"a\"} NaN\n"), HasSubstr("name=\"b\"} +Inf\n"),
                    HasSubstr("name=\"c\"} -Inf\n"), HasSubstr("name=\"d\"} 1e+300\n")));
}

TEST(RunMetricsTest, NoMetricIsThereTwice) {
  const std::string text = run_metrics({{.name = "a"}, {.name = "a", .batch = 9}}, {});
  EXPECT_EQ(count_of(text, "cairn_run_batch{run=\"a\"}"), 1U);
  EXPECT_EQ(count_of(text, "# TYPE cairn_run_batch "), 1U);
}

TEST(RunMetricsTest, NamesThatHaveOneLabelAreThereOnce) {
  RunStatus status{.name = "a"};
  status.values = {{"a\nb", {1, 1}}, {"a\\x0ab", {1, 2}}};
  EXPECT_EQ(count_of(run_metrics({status}, {}), "\ncairn_run_metric{"), 1U);
}

TEST(RunMetricsTest, TooManyOrTooLongMetricsAreLeftOut) {
  RunStatus status{.name = "a"};
  status.values.push_back({std::string(1000, 'x'), {1, 1}});
  for (int i = 0; i < 2000; ++i)
    status.values.push_back({"m" + std::to_string(i), {1, 1}});
  EXPECT_EQ(count_of(run_metrics({status}, {}), "\ncairn_run_metric{"), 1000U);
}

}  // namespace
}  // namespace cairn::cli
