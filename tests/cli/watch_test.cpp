// `cairn watch`: what it shows, and how it ends. No test waits: the clock of pauses is the test's,
// and what a run writes meanwhile happens in a pause.
#include <gmock/gmock.h>

#include <filesystem>
#include <sstream>

#include <nlohmann/json.hpp>

#include "checkpoint/folder/run_lock.h"
#include "cli/runs/run_view.h"
#include "cli/view/screen.h"
#include "eventful_clock.h"
#include "run_folder.h"
#include "run_tool.h"
#include "terminal/columns.h"
#include "testing/environment_variable.h"
#include "testing/other_process.h"
#include "tests/storage/sftp_fixture.h"

namespace cairn::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr const char* kLogName = "logs-rank0.jsonl";

std::string event_line(const std::string& what, int batch, const std::string& more = "") {
  return R"({"time":"2026-01-31T12:00:00.000Z","batch":)" + std::to_string(batch) +
         R"(,"event":")" + what + "\"" + more + "}\n";
}
// A Trainer logs it when a signal has asked it to stop.
std::string stop_at(int batch) {
  return R"({"batch":)" + std::to_string(batch) + R"(,"message":"SIGTERM: stopping at batch )" +
         std::to_string(batch) + ", saved\"}\n" + event_line("close", batch);
}
std::string loss_of(int batch) {
  return R"({"batch":)" + std::to_string(batch) + R"(,"metric":"loss/train/total","value":)" +
         std::to_string(1.0 / batch) + "}\n";
}
std::string message_of(int batch, const std::string& text) {
  return R"({"batch":)" + std::to_string(batch) + R"(,"message":")" + text + "\"}\n";
}
std::string told_at(const std::string& second, const std::string& text) {
  return R"({"time":"2026-01-31T12:00:)" + second + R"(.000Z","batch":1,"message":")" + text +
         "\"}\n";
}
const std::string kBegin =
    event_line("fit_start", 0, R"(,"max_duration":"2ep","dataloader_len":45)") + loss_of(1);

class WatchTest : public ::testing::Test {
 protected:
  WatchTest() { folder_.write(kLogName, kBegin); }

  // In the next pause, or in the one after those that are planned, the run logs this.
  void then_logs(const std::string& text) {
    then([this, text] { log(folder_, text); });
  }
  void then(std::function<void()> happening) { pauses_.then(std::move(happening)); }
  void then_nothing(int times) {
    for (int i = 0; i < times; ++i)
      then([] {});
  }
  static void log(const RunFolder& folder, const std::string& text) {
    folder.write(kLogName, testing::read_file(folder / kLogName) + text);
  }
  Answer watch(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"watch", folder_.path()});
    return run(more);
  }

  RunFolder folder_;
  EventfulPauses pauses_;
};

TEST_F(WatchTest, EndsWithTheRunAndSaysThatItFinished) {
  then_logs(loss_of(20));
  then_nothing(29);  // a minute has passed
  then_logs(loss_of(21));
  then_logs(loss_of(22));
  then([&] { folder_.save(40); });
  then_logs(message_of(40, "saved a.pt  1 KiB  0.1 s"));
  then_logs(event_line("fit_end", 90));
  const Answer answer = watch();
  EXPECT_EQ(answer.code, kDone);
  EXPECT_EQ(answer.err, "");
  std::istringstream out(answer.out);
  std::vector<std::string> lines;
  for (std::string line; std::getline(out, line);)
    lines.push_back(line);
  ASSERT_THAT(lines, SizeIs(6)) << answer.out;
  EXPECT_THAT(lines[0], AllOf(StartsWith(folder_.path() + ": training, last sign "),
                              HasSubstr("batch 1 of 90, loss/train/total 1")));
  EXPECT_THAT(lines[1], HasSubstr("batch 20 of 90, loss/train/total 0.05"));
  EXPECT_THAT(lines[2], HasSubstr("newest " + RunFolder::name(40)));
  EXPECT_EQ(lines[3], "batch 40  saved a.pt  1 KiB  0.1 s");
  EXPECT_THAT(lines[4], HasSubstr("1 saved"));
  EXPECT_THAT(lines[5], AllOf(HasSubstr(": finished at "), HasSubstr("batch 90 of 90")));
}

TEST_F(WatchTest, HowARunEndedIsInTheExitCode) {
  then_logs(stop_at(20));
  const Answer interrupted = watch();
  EXPECT_EQ(interrupted.code, 75);
  EXPECT_THAT(interrupted.out, HasSubstr(": interrupted at "));
  EXPECT_EQ(watch({"--quiet"}).code, 75);

  folder_.write(kLogName, kBegin);
  then_logs(event_line("close", 20));
  const Answer failed = watch();
  EXPECT_EQ(failed.code, kNegativeAnswer);
  EXPECT_THAT(failed.out, HasSubstr(": failed at "));

  folder_.write(kLogName, R"({"time":")" + RunFolder::now_in_log() +
                              R"(","batch":0,"event":"fit_start"})" + "\n");
  testing::OtherProcess process([&] {
    static const auto held = take_run_lock(
        posix_file_system(), {.folder = folder_.path(), .run_name = "run", .job = "job"});
  });
  then([&] { process.kill(); });
  const Answer killed = watch();
  EXPECT_EQ(killed.code, kNegativeAnswer);
  EXPECT_THAT(killed.out, HasSubstr("killed: its process has ended"));
}

TEST_F(WatchTest, ARunThatComesBackIsFollowed) {
  then_logs(stop_at(20));
  then_nothing(1);
  then_logs(event_line("fit_start", 20));
  then_logs(event_line("fit_end", 90));
  const Answer answer = watch({"--restarts"});
  EXPECT_EQ(answer.code, kDone);
  EXPECT_THAT(answer.out, HasSubstr("interrupted, waiting for the next start"));
  EXPECT_EQ(pauses_.left(), 0U);

  folder_.write(kLogName, kBegin + event_line("close", 20));
  then_nothing(6);
  EXPECT_EQ(watch({"--restarts", "--silence", "12s"}).code, kNegativeAnswer);
  EXPECT_EQ(pauses_.left(), 0U);
}

TEST_F(WatchTest, TheMessagesOfANewLogAreNewOnes) {
  log(folder_, message_of(1, "one") + message_of(2, "two") + message_of(3, "three"));
  then([&] {
    folder_.write(kLogName, event_line("fit_start", 0) + message_of(1, "four") +
                                message_of(2, "five") + event_line("fit_end", 9));
  });
  EXPECT_THAT(watch().out, AllOf(HasSubstr("four"), HasSubstr("five")));
}

TEST_F(WatchTest, ASilentRunEndsWithOne) {
  then_nothing(4);
  then_logs(loss_of(2));  // after 10 s, with those of the first look
  then_nothing(6);
  const Answer answer = watch({"--silence", "12s"});
  EXPECT_EQ(answer.code, kNegativeAnswer) << answer.err;
  EXPECT_THAT(answer.out, AllOf(HasSubstr("batch 2 of 90"), HasSubstr("silent, last sign 12 s")));
  EXPECT_EQ(pauses_.left(), 0U);
}

TEST_F(WatchTest, OnceShowsTheRunAsItIs) {
  folder_.save(40);
  log(folder_, message_of(40, "saved a.pt  1 KiB  0.1 s") + message_of(41, "time: 9 s: data 3 %"));
  const Answer answer = watch({"--once"});
  EXPECT_EQ(answer.code, kDone);
  EXPECT_THAT(
      answer.out,
      AllOf(HasSubstr("batch 40  saved a.pt"), HasSubstr("41/90"),
            HasSubstr("loss/train/total 1 at batch 1\n"), HasSubstr(RunFolder::name(40) + "  "),
            HasSubstr("(1 in all)\n1 saved\n"), HasSubstr("time: 9 s: data 3 %\n")));
  folder_.set_time(kLogName, std::chrono::system_clock::now() - std::chrono::minutes(20));
  EXPECT_EQ(watch({"--once", "--silence", "15m"}).code, kNegativeAnswer);
  EXPECT_EQ(watch({"--once", "--silence", "25m"}).code, kDone);
  log(folder_, event_line("close", 41));
  EXPECT_EQ(watch({"--once"}).code, kNegativeAnswer);
}

TEST_F(WatchTest, ARunThatIsNotThereIsAnErrorOrWaitedFor) {
  std::filesystem::remove(folder_ / kLogName);
  const Answer missing = watch();
  EXPECT_EQ(missing.code, kNotFound);
  EXPECT_THAT(missing.err, HasSubstr("there is neither a log of FileLogger nor a checkpoint at"));
  EXPECT_EQ(watch({"--wait", "--once"}).code, kNotFound);
  then_nothing(1);
  then([&] { folder_.write(kLogName, kBegin + event_line("fit_end", 90)); });
  const Answer waited = watch({"--wait"});
  EXPECT_EQ(waited.code, kDone);
  EXPECT_THAT(waited.out, HasSubstr("nothing is there yet"));
  std::filesystem::remove(folder_ / kLogName);
  then([&] { folder_.write(kLogName, kBegin + event_line("fit_end", 90)); });
  EXPECT_THAT(watch({"--wait", "--json"}).out, HasSubstr(R"("missing":true)"));
}

TEST_F(WatchTest, SeveralRunsEndTogether) {
  const RunFolder other;
  other.write(kLogName, kBegin);
  then([&] { log(other, message_of(1, "a message") + stop_at(5)); });
  then_nothing(1);
  then_logs(event_line("fit_end", 90));
  const Answer answer = watch({other.path()});
  EXPECT_EQ(answer.code, 75);
  EXPECT_THAT(answer.out, AllOf(HasSubstr(other.path() + "  a message"),
                                HasSubstr(other.path() + ": interrupted at "),
                                HasSubstr(folder_.path() + ": finished")));
  EXPECT_EQ(pauses_.left(), 0U);
}

TEST_F(WatchTest, AsJsonEachChangeIsAnObjectInALine) {
  then_nothing(1);
  then_logs(event_line("fit_end", 90));
  const Answer answer = watch({"--json"});
  std::istringstream out(answer.out);
  std::vector<std::string> states;
  for (std::string line; std::getline(out, line);) {
    states.push_back(nlohmann::json::parse(line).at("state"));
    EXPECT_EQ(nlohmann::json::parse(line).at("missing"), false);
  }
  EXPECT_THAT(states, ElementsAre("training", "finished"));
}

TEST_F(WatchTest, QuietSaysOnlyWhatWentWrong) {
  then_logs(loss_of(2));
  then_logs(event_line("fit_end", 90));
  EXPECT_EQ(watch({"--quiet"}).out, "");
  log(folder_, event_line("fit_start", 90) + event_line("close", 91));
  EXPECT_THAT(watch({"--quiet"}).out, HasSubstr(": failed at "));
}

TEST_F(WatchTest, MessagesOfSeveralRunsAreSortedByTime) {
  const RunFolder other;
  other.write(kLogName, kBegin + told_at("02", "second") + event_line("fit_end", 90));
  log(folder_, told_at("01", "first") + told_at("03", "third") + event_line("fit_end", 90));
  EXPECT_THAT(watch({other.path()}).out, ::testing::ContainsRegex("first\n.*second\n.*third\n"));
}

TEST_F(WatchTest, MessagesOfOneRunStayInTheirOrder) {
  // The run came back on a machine with a late clock.
  log(folder_, told_at("10", "one") + told_at("05", "two") + message_of(1, "three") +
                   told_at("30", "four") + event_line("fit_end", 90));
  EXPECT_THAT(watch().out, ::testing::ContainsRegex("one\n.*two\n.*three\n.*four\n"));
}

TEST_F(WatchTest, ARunThatFallsSilentHasALineOfItsOwn) {
  const RunFolder other;
  other.write(kLogName, kBegin);
  then_nothing(4);
  then([&] { log(other, event_line("fit_end", 90)); });
  const Answer answer = watch({other.path(), "--silence", "9s"});
  EXPECT_EQ(answer.code, kNegativeAnswer);
  EXPECT_THAT(answer.out, HasSubstr(folder_.path() + ": silent"));
}

// Files below a run may look like logs, or be some.
TEST_F(WatchTest, ARunWithoutALogIsNoFolderOfRuns) {
  RunFolder own_loop;
  own_loop.save(3);
  std::filesystem::create_directories(own_loop / "data");
  std::filesystem::create_directories(own_loop / "old");
  own_loop.write("data/train.csv", "x,y\n1,2\n");
  own_loop.write("old/log.jsonl", kBegin);
  const testing::TempFolder pages;
  EXPECT_EQ(run({"watch", "--once", own_loop.path()}).code, kDone);
  EXPECT_EQ(run({"metrics", own_loop.path()}).code, kDone);
  EXPECT_EQ(run({"report", own_loop.path(), "-o", pages / "x.html"}).code, kDone);

  const testing::TempFolder new_run;
  std::filesystem::create_directory(new_run / "eval");
  testing::write_file(new_run / "eval/out.csv", "x,y\n1,2\n");
  const Answer missing = run({"watch", "--once", new_run.path()});
  EXPECT_EQ(missing.code, kNotFound) << missing.err;
  EXPECT_EQ(run({"watch", "--once", new_run.path(), "--checkpoints", own_loop.path()}).code, kDone);
  EXPECT_EQ(run({"watch", "--once", own_loop.path(), "--checkpoints", own_loop / "nothing"}).code,
            kNotFound);
}

TEST_F(WatchTest, AFolderOfRunsIsNoRun) {
  const testing::TempFolder runs;
  EXPECT_EQ(run({"watch", "--once", runs.path()}).code, kNotFound);
  for (const char* name : {"a", "b"}) {
    std::filesystem::create_directory(runs / name);
    testing::write_file(runs / name + "/" + kLogName, kBegin);
  }
  for (const std::vector<std::string>& command : {std::vector<std::string>{"watch", "--once"},
                                                  {"curves"},
                                                  {"metrics"},
                                                  {"report", "-o", runs / "x.html"}}) {
    std::vector<std::string> words = command;
    words.push_back(runs.path());
    const Answer answer = run(words);
    EXPECT_EQ(answer.code, kFailed) << command[0];
    EXPECT_THAT(answer.err, HasSubstr("is not a run, but a folder of runs: " + runs / "a" + ", " +
                                      runs / "b" + ". Name those that you mean"));
  }
  EXPECT_EQ(run({"watch", "--once", runs / "a", runs / "b"}).code, kDone);
}

TEST_F(WatchTest, ALogWithoutEventsEndsBySilence) {
  std::filesystem::remove(folder_ / kLogName);
  folder_.write("log.csv", "time,batch,loss\n2026-01-31T12:00:00.000Z,7,2\n");
  then_nothing(5);
  const Answer answer = watch({"--silence", "10s"});
  EXPECT_EQ(answer.code, kNegativeAnswer) << answer.err;
  EXPECT_THAT(answer.out, AllOf(HasSubstr("the log does not say whether it trains"),
                                HasSubstr("batch 7, loss 2")));
}

// `ssh` is a script here that starts the server of files, as sshd does.
TEST_F(WatchTest, FollowsARunOverSftp) {
  const std::string server = sftp_server();
  if (server.empty()) GTEST_SKIP() << "there is no sftp-server";
  const testing::TempFolder programs;
  testing::write_file(programs / "ssh", "#!/bin/sh\nexec " + server + "\n");
  std::filesystem::permissions(programs / "ssh", std::filesystem::perms::owner_all);
  const std::string found = programs.path() + ":" + std::getenv("PATH");  // NOLINT: no threads
  const testing::EnvironmentVariable path("PATH", found.c_str());
  then_logs(loss_of(2));
  then_nothing(1);
  then_logs(event_line("fit_end", 90));
  const auto before = pause_time();
  const Answer answer = run({"watch", "sftp://host/%2F" + folder_.path().substr(1)});
  EXPECT_EQ(answer.code, kDone) << answer.err;
  EXPECT_THAT(answer.out, AllOf(HasSubstr("batch 2 of 90"), HasSubstr("finished at ")));
  EXPECT_EQ(pause_time() - before, std::chrono::seconds(90));  // three pauses of a far place
}

TEST_F(WatchTest, AnIntervalIsBetweenASecondAndADay) {
  EXPECT_EQ(watch({"--interval", "365000d"}).code, kFailed);
  EXPECT_EQ(watch({"--interval", "0s"}).code, kFailed);
  EXPECT_EQ(watch({"--interval", "often"}).code, kFailed);
  EXPECT_EQ(watch({"--silence", "0s"}).code, kFailed);
  then_nothing(1);
  then_logs(event_line("fit_end", 90));
  const auto before = pause_time();
  EXPECT_EQ(watch({"--interval", "50s"}).code, kDone);
  EXPECT_EQ(pause_time() - before, std::chrono::seconds(100));
}

// --- The view -----------------------------------------------------------------------------------

struct RunViewTest : ::testing::Test {
  RunViewTest() {
    status_.name = "first";
    status_.state = RunState::kTraining;
    status_.batch = 38;
    status_.total_batches = 90;
    status_.begin = RunFolder::start();
    status_.last_sign = RunFolder::start() + std::chrono::seconds(10);
    status_.values = {{"loss/train/total", {38, 0.25}}, {"lr", {38, 0.1}}};
    for (int batch = 1; batch <= 38; ++batch)
      curve_.push_back({batch, 1.0 / batch});
    other_.name = "second";
  }
  std::vector<std::string> view(TerminalSize size) const {
    return view_of({{.status = status_, .curve = &curve_}, {.status = other_}}, size, console_);
  }
  static std::string joined_lines(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines)
      text += line + "\n";
    return text;
  }

  RunStatus status_;
  RunStatus other_;
  std::vector<MetricPoint> curve_;
  std::ostringstream out_;
  Console console_{.out = out_, .err = out_};
};

TEST_F(RunViewTest, RunsStandSideBySideOrBelowOneAnother) {
  EXPECT_THAT(view({.columns = 130, .rows = 40})[0],
              AllOf(StartsWith("first "), HasSubstr(" second")));
  const std::vector<std::string> narrow = view({.columns = 80, .rows = 40});
  EXPECT_EQ(narrow[0], "first");
  EXPECT_THAT(joined_lines(narrow), HasSubstr("\n\nsecond\n"));
  EXPECT_THAT(joined_lines(narrow),
              AllOf(HasSubstr(" 42%|"), HasSubstr("38/90 [00:10<00:13, 3.80ba/s]"),
                    HasSubstr("loss/train/total 0.25 at batch 38\n"), HasSubstr("\nlr 0.1\n")));
}

TEST_F(RunViewTest, ANarrowTerminalHasAShorterBar) {
  const std::string line = view({.columns = 51, .rows = 40})[2];
  EXPECT_THAT(line, AllOf(StartsWith(" 42%|"), HasSubstr("[00:10<00:13, 3.80ba/s]")));
  EXPECT_LE(columns_of(line), 50U);
  status_.state = RunState::kFinished;
  EXPECT_THAT(view({.columns = 80, .rows = 40})[2], HasSubstr("38/90 [00:10, 3.80ba/s]"));
}

TEST_F(RunViewTest, ALineThatGoesOnEndsWithAComma) {
  status_.times = "time: 90 s for 900 batches: data 30 %, forward 20 %, backward 40 %, saving 10 %";
  const std::string text = joined_lines(view({.columns = 61, .rows = 40}));
  EXPECT_THAT(text, HasSubstr("forward 20 %,\nbackward 40 %, saving 10 %\n"));
}

TEST_F(RunViewTest, ACutNumberIsSeenToBeCut) {
  status_.values = {{"loss/train/total", {2304, 0.0006433}}};
  EXPECT_THAT(joined_lines(view({.columns = 40, .rows = 40})),
              HasSubstr("loss/train/total 0.0006433 at batch 23…\n"));
  status_.name = std::string(60, 'n');
  EXPECT_EQ(view({.columns = 40, .rows = 40})[0], std::string(38, 'n') + "…");
}

TEST_F(RunViewTest, FitsIntoAnyTerminal) {
  status_.problem = std::string(300, 'x');
  status_.values.push_back({std::string(300, 'y'), {1, 1}});
  for (const int columns : {1, 5, 19, 20, 21, 40, 80, 200}) {
    const auto lines = view({.columns = columns, .rows = 24});
    for (const std::string& line : lines)
      EXPECT_LT(columns_of(line), std::max(static_cast<std::size_t>(columns), std::size_t{2}));
    EXPECT_LT(lines.size(), 24U);
  }
  EXPECT_GT(view({.columns = 80, .rows = 40}).size(), view({.columns = 80, .rows = 20}).size());
}

TEST_F(RunViewTest, RunsWithoutRoomAreCountedAndBadOnesComeFirst) {
  RunStatus bad;
  bad.name = "bad";
  bad.state = RunState::kKilled;
  std::vector<ViewedRun> runs(30, ViewedRun{.status = other_});
  runs.push_back({.status = bad});
  const TerminalSize size = {.columns = 80, .rows = 24};
  const auto lines = fitting_view_of(runs, size, console_);
  EXPECT_LT(lines.size(), 24U);
  EXPECT_EQ(lines.front(), "bad");
  std::size_t shown = 1;
  for (const std::string& line : lines)
    shown += line == "second" ? 1 : 0;
  EXPECT_EQ(lines.back(), "and " + std::to_string(31 - shown) + " more runs");
  EXPECT_EQ(fitting_view_of({{.status = bad}}, size, console_).front(), "bad");
  EXPECT_THAT(joined_lines(view_of(runs, size, console_)), HasSubstr("\nbad\n"));
}

TEST_F(RunViewTest, ValuesWithoutRoomAreCountedAndCountersComeLast) {
  status_.values = {{"loss/train/total", {1, 1}}, {"time/batch", {1, 1}}};
  for (int i = 0; i < 40; ++i)
    status_.values.push_back({"value" + std::to_string(i), {1, 1}});
  const std::string text = joined_lines(view({.columns = 61, .rows = 40}));
  EXPECT_THAT(text, HasSubstr(" more\n"));
  EXPECT_THAT(text, Not(HasSubstr("time/batch")));
  status_.values = {{"time/batch", {1, 1}}, {"x", {1, 2}}};
  EXPECT_EQ(main_value(status_)->metric, "x");
}

TEST_F(RunViewTest, ASpikeOfALongRunIsInThePlot) {
  curve_.clear();
  for (int batch = 1; batch <= 100'000; ++batch)
    curve_.push_back({batch, batch == 54'321 ? 1234.0 : 1.0});
  EXPECT_THAT(joined_lines(view({.columns = 80, .rows = 40})), HasSubstr("1234 "));
}

TEST_F(RunViewTest, WhatWentWrongIsRed) {
  console_.color = true;
  status_.state = RunState::kInterrupted;
  EXPECT_THAT(view({.columns = 80, .rows = 24})[1], StartsWith("\x1b[31minterrupted"));
}

// --- The screen ---------------------------------------------------------------------------------

struct ScreenTest : ::testing::Test {
  std::string drawn(const std::vector<std::string>& log, const std::vector<std::string>& view) {
    out_.str("");
    screen_.draw(log, view);
    return out_.str();
  }
  std::ostringstream out_;
  TerminalSize size_ = {.columns = 20, .rows = 5};
  Screen screen_{out_, /*color=*/false, [this] { return size_; }};
};

TEST_F(ScreenTest, AViewReplacesThePreviousOne) {
  EXPECT_EQ(drawn({}, {"a", "b"}), "\r\x1b[J\x1b[?7la\nb\n\x1b[?7h");
  EXPECT_EQ(drawn({"message"}, {"c"}), "\r\x1b[2A\x1b[Jmessage\n\x1b[?7lc\n\x1b[?7h");
  EXPECT_THAT(drawn({}, {"d"}), StartsWith("\r\x1b[1A\x1b[J"));
}

TEST_F(ScreenTest, AViewIsCutToTheTerminal) {
  EXPECT_THAT(drawn({}, {"1", "2", "3", "4", "5", "6"}), HasSubstr("4\n\x1b[?7h"));
  EXPECT_THAT(drawn({}, {}), StartsWith("\r\x1b[4A"));
}

TEST_F(ScreenTest, ANarrowerTerminalHasBrokenTheLines) {
  drawn({}, {std::string(19, 'x'), "y"});
  size_.columns = 10;
  EXPECT_THAT(drawn({}, {}), StartsWith("\r\x1b[3A"));
}

TEST_F(ScreenTest, NoTextMovesTheCursor) {
  const std::string evil = "\x1b[2J\x07\u009b2J";
  const std::string text = drawn({evil}, {evil});
  EXPECT_THAT(text, AllOf(Not(HasSubstr("\x1b[2J")), Not(HasSubstr("\x07")),
                          Not(HasSubstr("\u009b")), HasSubstr("\\x1b[2J")));
}

}  // namespace
}  // namespace cairn::cli
