// `cairn report`: the contents of the page. tests/cli/report_page_test.py looks at it in a browser.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/report/page.h"
#include "cli/report/report_data.h"
#include "cli/runs/thin.h"
#include "cli/view/content/describe_value.h"
#include "core/text/json.h"
#include "event_bytes.h"
#include "run_folder.h"
#include "run_tool.h"
#include "text_parts.h"

namespace cairn::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Lt;
using ::testing::Not;
using testing::read_file;
using ::testing::SizeIs;

nlohmann::json data_of(const std::string& page) {
  return nlohmann::json::parse(
      between(page, "<script type=\"application/json\" id=\"data\">", "</script>"));
}

// The SHA-256 of a text in base64.
std::string base64_hash(const std::string& text) {
  constexpr const char* kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::string hex = sha256(std::as_bytes(std::span(text)));
  std::string bits;
  for (const char digit : hex) {
    const int value = std::stoi(std::string(1, digit), nullptr, 16);
    for (int bit = 3; bit >= 0; --bit)
      bits += (value >> bit & 1) != 0 ? '1' : '0';
  }
  std::string base64;
  for (std::size_t i = 0; i < bits.size(); i += 6) {
    std::string six = bits.substr(i, 6);
    six.resize(6, '0');
    base64 += kDigits[std::stoi(six, nullptr, 2)];
  }
  return base64 + "=";
}

struct ReportTest : ::testing::Test {
  std::string page(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "report");
    arguments.insert(arguments.end(), {"-o", folder_ / "report.html", "--overwrite"});
    const Answer answer = run(arguments);
    EXPECT_EQ(answer.code, kDone) << answer.err;
    return read_file(folder_ / "report.html");
  }
  std::string log(const std::string& name, const std::string& text) const {
    folder_.write(name, text);
    return folder_ / name;
  }
  RunFolder folder_;
};

// If the log has a value of the same name, the page shows that one.
TEST_F(ReportTest, HasTheOptionsOfTheCheckpointThatWouldBeTaken) {
  Dict state = testing::sample_checkpoint(10).at("state").as_dict();
  state.set("metadata", Dict{{"trainer_options", Dict{{"lr", "0.1"}, {"max_duration", "2ep"}}}});
  Dict checkpoint = testing::sample_checkpoint(10).as_dict();
  checkpoint.set("state", state);
  save(checkpoint, folder_ / RunFolder::name(10), {.info = testing::sample_info(10)});
  log("log.jsonl", R"({"hyperparameter":"lr","value":0.2})"
                   "\n");
  const auto run = data_of(page({folder_.path()})).at("runs").at(0);
  EXPECT_EQ(run.at("hyperparameters"),
            nlohmann::json({{{"name", "lr"}, {"value", "0.2"}},
                            {{"name", "max_duration"}, {"value", "\"2ep\""}}}));
}

TEST_F(ReportTest, HasTheCurvesOfEachRun) {
  const std::string a = log("a.jsonl", R"({"hyperparameter":"lr","value":0.1}
{"time":"2026-01-31T12:00:00.500Z","batch":0,"event":"fit_start"}
{"batch":1,"metric":"loss","value":0.30000001192092896}
{"batch":2,"metric":"loss","value":null}
{"batch":3,"metric":"loss","value":-7}
{"batch":3,"message":"saved a.pt"}
)");
  const std::string b = log("b.csv", "batch,loss\n5,inf\n");
  const auto runs = data_of(page({a, b})).at("runs");
  ASSERT_THAT(runs, SizeIs(2));
  EXPECT_EQ(runs[0].at("name"), a);
  const auto& loss = runs[0].at("curves").at(0);
  EXPECT_EQ(loss.at("name"), "loss");
  EXPECT_EQ(loss.at("batches"), nlohmann::json({1, 2, 3}));
  EXPECT_EQ(loss.at("values"), nlohmann::json({0.3, nullptr, -7.0}));
  EXPECT_EQ(loss.at("not_finite"), 1);
  EXPECT_EQ(loss.at("first_not_finite"), 2);
  EXPECT_EQ(loss.at("lowest"), nlohmann::json({{"batch", 3}, {"value", -7.0}}));
  EXPECT_EQ(runs[0].at("hyperparameters"), nlohmann::json({{{"name", "lr"}, {"value", "0.1"}}}));
  EXPECT_EQ(runs[0].at("messages"), nlohmann::json({{{"batch", 3}, {"text", "saved a.pt"}}}));
  EXPECT_EQ(runs[0].at("spans").at(0).at("begin"), 1769860800500);
  EXPECT_EQ(runs[1].at("curves").at(0).at("not_finite"), 1);
  EXPECT_FALSE(runs[1].at("curves").at(0).contains("lowest"));
}

TEST_F(ReportTest, SaysAboutCheckpointsWhatLsAndResumeSay) {
  folder_.save(10);
  folder_.save(20);
  folder_.save(30);
  folder_.damage(RunFolder::name(20), /*visibly=*/true);
  folder_.link("latest-rank0.pt", RunFolder::name(30));
  const auto run_data = data_of(page({folder_.path()})).at("runs").at(0);
  EXPECT_TRUE(run_data.at("log").is_null());
  ASSERT_THAT(run_data.at("folders"), SizeIs(1));
  const auto& folder = run_data.at("folders").at(0);
  const auto& rows = folder.at("checkpoints");
  ASSERT_THAT(rows, SizeIs(3));
  const auto row_of = [&](std::int64_t batch) {
    for (const auto& row : rows) {
      if (row.at("name") == RunFolder::name(batch)) return row;
    }
    return nlohmann::json();
  };
  EXPECT_EQ(row_of(30).at("chosen"), true);
  EXPECT_EQ(row_of(30).at("latest"), true);
  EXPECT_EQ(row_of(30).at("ok"), true);
  EXPECT_EQ(row_of(20).at("ok"), false);
  EXPECT_THAT(row_of(20).at("problem").get<std::string>(), Not(IsEmpty()));
  EXPECT_EQ(row_of(10).at("chosen"), false);
  EXPECT_EQ(row_of(10).at("why_not"), "behind it, at epoch 1, batch 10");
  EXPECT_EQ(row_of(10).at("time"), 1767268800000 + 10 * 60'000);
  EXPECT_EQ(folder.at("resume").at("path"), folder_ / RunFolder::name(30));
  EXPECT_EQ(folder.at("resume").at("why"), "epoch 3, batch 30");
  EXPECT_THAT(folder.at("resume").at("checked").get<std::string>(), HasSubstr("ok"));
}

TEST_F(ReportTest, VerifyFindsWhatTheQuickCheckDoesNot) {
  folder_.save(10);
  folder_.save(20);
  folder_.damage(RunFolder::name(20), /*visibly=*/false);
  EXPECT_EQ(data_of(page({folder_.path()})).at("verified"), false);
  const Answer answer =
      run({"report", folder_.path(), "--verify", "-o", folder_ / "report.html", "--overwrite"});
  EXPECT_EQ(answer.code, kNegativeAnswer);
  const auto data = data_of(read_file(folder_ / "report.html"));
  EXPECT_EQ(data.at("verified"), true);
  const auto& folder = data.at("runs").at(0).at("folders").at(0);
  EXPECT_EQ(folder.at("resume").at("path"), folder_ / RunFolder::name(10));
}

TEST_F(ReportTest, FindsCheckpointsInFoldersBelowOrWhereItIsTold) {
  std::filesystem::create_directories(folder_ / "run/ckpt");
  std::filesystem::create_directories(folder_ / "other");
  folder_.save(10);
  std::filesystem::rename(folder_ / RunFolder::name(10), folder_ / "run/ckpt/ep1-ba10-rank0.pt");
  log("run/logs-rank0.jsonl", "{\"batch\":1,\"metric\":\"loss\",\"value\":1}\n");
  log("other/logs-rank0.jsonl", "{\"batch\":1,\"metric\":\"loss\",\"value\":1}\n");
  const auto runs = data_of(page({folder_ / "run", folder_ / "other"})).at("runs");
  EXPECT_EQ(runs[0].at("folders").at(0).at("folder"), folder_ / "run/ckpt");
  EXPECT_THAT(runs[1].at("folders"), IsEmpty());
  const auto told = data_of(page({folder_ / "other", "--checkpoints", folder_ / "run/ckpt"}));
  EXPECT_THAT(told.at("runs").at(0).at("folders"), SizeIs(1));
}

TEST_F(ReportTest, CheckpointsShowThatAKilledRunLived) {
  folder_.save(10);
  log("log.jsonl", R"({"time":"2026-01-01T12:00:00.000Z","batch":0,"event":"fit_start"}
{"time":"2026-01-01T13:00:00.000Z","batch":10,"event":"fit_start"}
)");
  const auto spans = data_of(page({folder_.path()})).at("runs").at(0).at("spans");
  ASSERT_THAT(spans, SizeIs(2));
  EXPECT_EQ(spans[0].at("last").get<std::int64_t>() - spans[0].at("begin").get<std::int64_t>(),
            10 * 60'000);
  EXPECT_EQ(spans[1].at("last"), spans[1].at("begin"));
}

TEST_F(ReportTest, SaysThatALogHasNoFolderOfCheckpoints) {
  const std::string path = log("log.jsonl", "{\"batch\":1,\"metric\":\"loss\",\"value\":1}\n");
  EXPECT_EQ(data_of(page({path})).at("runs").at(0).at("has_folder"), false);
  EXPECT_EQ(data_of(page({folder_.path()})).at("runs").at(0).at("has_folder"), true);
}

TEST_F(ReportTest, ShowsARunThatHasOnlyEventFiles) {
  folder_.save(10);
  std::filesystem::create_directory(folder_ / "tb");
  log("tb/" + events::named(0), events::scalar("loss", 3, 1) + events::scalar("loss", 2, 9));
  const auto run_data = data_of(page({folder_.path()})).at("runs").at(0);
  EXPECT_EQ(run_data.at("log"), folder_ / "tb");
  EXPECT_EQ(run_data.at("curves").at(0).at("batches"), nlohmann::json({1, 9}));
  EXPECT_EQ(run_data.at("spans").at(0).at("end"), "values");
  EXPECT_THAT(run_data.at("folders"), SizeIs(1));
  // With those of several runs below it, the folder has no log of its own.
  std::filesystem::create_directory(folder_ / "tb2");
  log("tb2/" + events::named(0), events::scalar("loss", 1, 1));
  EXPECT_EQ(data_of(page({folder_.path()})).at("runs").at(0).at("log"), nullptr);
}

TEST_F(ReportTest, RefusesWhatMakesNoReport) {
  const std::string a = log("a.jsonl", "{\"batch\":1,\"metric\":\"loss\",\"value\":1}\n");
  EXPECT_THAT(run({"report", a, "-o", folder_ / "report.pt"}).err, HasSubstr("ends with .html"));
  EXPECT_EQ(run({"report", folder_ / "none", "-o", folder_ / "r.html"}).code, kNotFound);
  EXPECT_THAT(run({"report", a, "--checkpoints", "a", "--checkpoints", "b", "-o", "r.html"}).err,
              HasSubstr("--checkpoints was given 2 times for 1 runs"));
  std::filesystem::create_directory(folder_ / "empty");
  EXPECT_THAT(run({"report", folder_ / "empty", "-o", folder_ / "r.html"}).err,
              HasSubstr("neither a log nor a checkpoint"));
  EXPECT_EQ(run({"report", a, "-o", folder_ / "r.html"}).code, kDone);
  EXPECT_NE(run({"report", a, "-o", folder_ / "r.html"}).code, kDone);
  const Answer again = run({"--json", "report", a, "-o", folder_ / "r.html", "--overwrite"});
  const auto shown = nlohmann::json::parse(again.out);
  EXPECT_EQ(shown.at("bytes"), std::filesystem::file_size(folder_ / "r.html"));
  EXPECT_EQ(shown.at("runs"), 1);
}

// --- Safety -------------------------------------------------------------------------------------

TEST_F(ReportTest, OnlyThePagesOwnStyleAndScriptMayRun) {
  const std::string html = report_page({{"runs", Json::array()}});
  const std::string policy = between(html, "Content-Security-Policy\" content=\"", "\"");
  EXPECT_THAT(policy, AllOf(HasSubstr("default-src 'none'"), HasSubstr("base-uri 'none'"),
                            HasSubstr("form-action 'none'"), Not(HasSubstr("unsafe")),
                            HasSubstr("require-trusted-types-for 'script'")));
  EXPECT_THAT(policy, HasSubstr("style-src 'sha256-" +
                                base64_hash(between(html, "<style>", "</style>")) + "';"));
  EXPECT_THAT(policy, HasSubstr("script-src 'sha256-" +
                                base64_hash(between(html, "<script>", "</script>")) + "';"));
  EXPECT_THAT(html, HasSubstr("Copyright (c) 2022 Leon Sorokin"));
  for (const char* loads : {" src=", "@import", "url(", "innerHTML", "insertAdjacentHTML",
                            "document.write", "eval(", "XMLHttpRequest", "fetch("}) {
    EXPECT_THAT(html, Not(HasSubstr(loads))) << loads;
  }
}

TEST_F(ReportTest, HostileTextStaysText) {
  const std::string evil =
      "</script><script>alert(1)</script><!--<script>]]>&lt;\"'\\{{policy}}"
      "\xe2\x80\xa8\xe2\x80\xa9\x1b[2J\x7f\u009b";
  const Json quoted = evil;
  const std::string text = quoted.dump();
  std::filesystem::create_directories(folder_ / evil.substr(9, 7));  // "<script"
  const std::string path =
      log(evil.substr(9, 7) + "/logs-rank0.jsonl",
          "{\"hyperparameter\":" + text + ",\"value\":" + text +
              "}\n{\"batch\":1,\"message\":" + text + "}\n{\"batch\":1,\"metric\":" + text +
              ",\"value\":1}\n{\"batch\":1,\"metric\":\"__proto__\",\"value\":1}\n");
  folder_.write(evil.substr(9, 7) + "/\"><img src=x onerror=alert(1)>.pt", "broken");
  std::filesystem::create_directories(folder_ / "tb");
  const std::string not_utf8 = "\xff</script>\x1b";
  log("tb/" + events::named(0),
      events::scalar(evil, 1, 1) + events::scalar(not_utf8, 1, 1) + events::record("\xff"));
  const std::string html = page({folder_ / evil.substr(9, 7), folder_ / "tb"});
  const std::string data = between(html, "id=\"data\">", "</script>");
  EXPECT_THAT(data, Not(::testing::ContainsRegex("[<>&]")));
  EXPECT_THAT(data, AllOf(Not(HasSubstr("\xe2\x80\xa8")), Not(HasSubstr("\xe2\x80\xa9")),
                          Not(HasSubstr("\x1b")), Not(HasSubstr("\x7f"))));
  const std::string harmless = report_page({{"runs", Json::array()}});
  for (const char* part : {"<script", "</script", "<img", "<!--"})
    EXPECT_EQ(count_of(html, part), count_of(harmless, part)) << part;
  const auto run_data = data_of(html).at("runs").at(0);
  EXPECT_EQ(run_data.at("curves").at(0).at("name"), evil);
  EXPECT_EQ(run_data.at("curves").at(1).at("name"), "__proto__");
  EXPECT_EQ(run_data.at("hyperparameters").at(0).at("name"), evil);
  EXPECT_EQ(run_data.at("messages").at(0).at("text"), evil);
  EXPECT_EQ(run_data.at("folders").at(0).at("checkpoints").at(0).at("name"),
            "\"><img src=x onerror=alert(1)>.pt");
  EXPECT_EQ(data_of(html).at("runs").at(1).at("curves").at(0).at("name"), evil);
}

TEST_F(ReportTest, LongTextsAreCut) {
  const std::string path =
      log("a.jsonl", "{\"batch\":1,\"message\":\"" + std::string(1 << 20, 'x') + "\"}\n");
  EXPECT_THAT(page({path}).size(), Lt(std::size_t{200'000}));
}

// --- Size ---------------------------------------------------------------------------------------

std::vector<MetricPoint> noise(std::size_t count) {
  std::vector<MetricPoint> points;
  for (std::size_t i = 0; i < count; ++i)
    points.push_back({static_cast<std::int64_t>(i), -1e-5 / static_cast<double>(i + 3)});
  return points;
}

TEST(ReportSizeTest, AMillionRowsTakeLessThan5MB) {
  for (const std::size_t curves : {std::size_t{1}, std::size_t{10}, std::size_t{1000}}) {
    const auto log = std::make_shared<RunLog>(RunLog{.path = "log.jsonl"});
    for (std::size_t i = 0; i < curves; ++i)
      log->metrics["metric/" + std::to_string(i)] = noise(1'000'000 / curves);
    const std::string html = report_page(report_data({{.name = "run", .log = log}}, false, {}));
    EXPECT_THAT(html.size(), Lt(std::size_t{5'000'000})) << curves;
  }
}

TEST(ThinTest, KeepsTheExtremesOfEachGroup) {
  std::vector<MetricPoint> points = noise(10'000);
  points[1234].value = 99;
  points[4321].value = NAN;
  const ThinCurve curve = thin(points, 100);
  ASSERT_THAT(curve.values, SizeIs(50));
  ASSERT_THAT(curve.highs, SizeIs(50));
  EXPECT_EQ(curve.highs[1234 / 200], 99);
  EXPECT_NEAR(curve.values[1234 / 200], 99.0 / 200, 1e-3);
  EXPECT_TRUE(std::isfinite(curve.values[4321 / 200]));
  EXPECT_EQ(curve.batches[0], 0);
  EXPECT_EQ(curve.batches[1], 300);
  EXPECT_EQ(curve.batches.back(), 9999);
}

TEST(ThinTest, LeavesShortCurvesAsTheyAre) {
  const ThinCurve curve = thin({{1, 2.5}, {7, INFINITY}}, 2);
  EXPECT_THAT(curve.batches, ElementsAre(1, 7));
  EXPECT_EQ(curve.values[0], 2.5);
  EXPECT_TRUE(std::isnan(curve.values[1]));
  EXPECT_THAT(curve.lows, IsEmpty());
}

TEST(ThinTest, AGroupWithoutANumberHasNone) {
  const ThinCurve curve = thin({{1, NAN}, {2, NAN}, {3, 1e308}, {4, -1e308}, {5, 1}}, 4);
  EXPECT_TRUE(std::isnan(curve.values[0]));
  EXPECT_TRUE(std::isnan(curve.lows[0]));
}

TEST(ThinTest, ShortCurvesLeaveTheirShareToLongOnes) {
  EXPECT_EQ(fair_share({}, 100), 100U);
  EXPECT_EQ(fair_share({10, 20}, 100), 20U);
  EXPECT_EQ(fair_share({10, 1000}, 100), 90U);
  EXPECT_EQ(fair_share({1000, 1000, 40}, 100), 33U);
  EXPECT_EQ(fair_share(std::vector<std::size_t>(1000, 10), 100), 2U);
}

}  // namespace
}  // namespace cairn::cli
