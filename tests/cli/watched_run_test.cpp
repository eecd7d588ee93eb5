// How a run stands, from its log and its folders, look after look.
#include "cli/runs/watched_run.h"

#include <gmock/gmock.h>

#include <filesystem>

#include <nlohmann/json.hpp>

#include "cairn/error.h"

#include "checkpoint/folder/run_lock.h"
#include "cli/view/clock_text.h"
#include "core/text/json.h"
#include "core/text/json_text.h"
#include "io/machine.h"
#include "run_folder.h"
#include "testing/other_process.h"

namespace cairn::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr const char* kLog = "logs-rank0.jsonl";
constexpr const char* kBegun =
    R"({"time":"2026-01-31T12:00:00.000Z","batch":0,"event":"fit_start",)"
    R"("max_duration":"2ep","dataloader_len":45}
{"batch":10,"metric":"loss/train/total","value":2.5}
{"batch":10,"metric":"lr","value":0.1}
)";
constexpr const char* kSaved =
    R"({"time":"2026-01-31T12:00:20.000Z","batch":20,"message":"saved a.pt  1 KiB  0.1 s"})"
    "\n";

std::string event(const std::string& second, int batch, const std::string& what) {
  return R"({"time":"2026-01-31T12:00:)" + second + R"(.000Z","batch":)" + std::to_string(batch) +
         R"(,"event":")" + what + "\"}\n";
}

struct WatchedRunTest : ::testing::Test {
  const RunStatus& status_of(const std::string& log) {
    folder_.write(kLog, log);
    run_.look();
    return run_.status();
  }
  // The state of a run with this log.
  RunState state_after(const std::string& log) { return status_of(log).state; }

  RunFolder folder_;
  WatchedRun run_{{.run = folder_.path()}};
};

TEST_F(WatchedRunTest, ARunIsSeenFromItsBeginToItsEnd) {
  EXPECT_THROW(run_.look(), NotFoundError);
  RunStatus status = status_of(kBegun);
  EXPECT_EQ(status.state, RunState::kTraining);
  EXPECT_EQ(status.batch, 10);
  EXPECT_EQ(status.total_batches, 90);
  EXPECT_EQ(main_value(status)->metric, "loss/train/total");
  EXPECT_EQ(main_value(status)->point, (MetricPoint{10, 2.5}));
  EXPECT_FALSE(status.newest);
  EXPECT_FALSE(run_.look());

  folder_.save(20);
  status = status_of(std::string(kBegun) + kSaved);
  EXPECT_EQ(status.batch, 20);
  EXPECT_EQ(status.saves.saved, 1U);
  EXPECT_THAT(status.messages, SizeIs(1));
  ASSERT_TRUE(status.newest);
  EXPECT_EQ(status.newest->name, RunFolder::name(20));
  EXPECT_EQ(status.newest->condition, Condition::kGood);

  status = status_of(std::string(kBegun) + kSaved + event("40", 90, "fit_end"));
  EXPECT_EQ(status.state, RunState::kFinished);
  EXPECT_EQ(batches_per_second(status), 90 / 40.0);
  EXPECT_EQ(seconds_left(status), std::nullopt);
}

TEST_F(WatchedRunTest, TheLastEventSaysWhatTheRunIsDoing) {
  const std::string begun = event("00", 0, "fit_start");
  EXPECT_EQ(state_after(begun + event("09", 5, "close")), RunState::kFailed);
  EXPECT_EQ(state_after(begun + event("09", 5, "close") + event("10", 5, "fit_start")),
            RunState::kTraining);
  EXPECT_EQ(state_after("{\"batch\":1,\"metric\":\"loss\",\"value\":1}\n"), RunState::kUnknown);
}

TEST_F(WatchedRunTest, ARunThatWasAskedToStopIsInterrupted) {
  const auto told = [](const std::string& text) {
    return R"({"time":"2026-01-31T12:00:08.000Z","batch":5,"message":")" + text + "\"}\n";
  };
  const std::string begun = event("00", 0, "fit_start");
  const std::string end = event("09", 5, "close");
  const std::string stop = told("SIGTERM: stopping at batch 5, saved");
  EXPECT_EQ(state_after(begun + stop + end), RunState::kInterrupted);
  EXPECT_EQ(state_after(begun + told("x: stopping at step 5, saved") + end),
            RunState::kInterrupted);
  // Before the first fit(), and between two.
  EXPECT_EQ(state_after(told("SIGTERM: stopping at batch 5, before anything was trained")),
            RunState::kInterrupted);
  EXPECT_EQ(state_after(begun + event("07", 5, "fit_end") + stop), RunState::kInterrupted);
  EXPECT_EQ(state_after(begun + stop + end + event("10", 5, "fit_start")), RunState::kTraining);
  const std::string failure = told("the run failed: no space left");
  EXPECT_EQ(state_after(begun + failure + end), RunState::kFailed);
  EXPECT_EQ(state_after(failure), RunState::kFailed);
  EXPECT_EQ(state_after(begun + event("07", 5, "fit_end") + failure), RunState::kFailed);
  EXPECT_EQ(state_after(begun + stop + failure + end), RunState::kFailed);
  // Messages about something else.
  for (const char* other : {"data set: stopping at record 17, 3 are damaged", "stopping at batch 5",
                            "SIGTERM: stopping at batch 50, saved"})
    EXPECT_EQ(state_after(begun + told(other) + end), RunState::kFailed) << other;
}

TEST_F(WatchedRunTest, TheLengthOfTheRunIsInBatchesOrEpochs) {
  const auto length_of = [&](const std::string& says) {
    return status_of(R"({"time":"2026-01-31T12:00:00.000Z","batch":0,"event":"fit_start",)" + says +
                     "}\n")
        .total_batches;
  };
  EXPECT_EQ(length_of(R"("max_duration":"90ba")"), 90);
  EXPECT_EQ(length_of(R"("max_duration":"3ep","dataloader_len":30)"), 90);
  EXPECT_EQ(length_of(R"("max_duration":"3ep")"), std::nullopt);
  EXPECT_EQ(length_of(R"("max_duration":"3tok","dataloader_len":30)"), std::nullopt);
  for (const char* hostile :
       {R"("max_duration":"9223372036854775807ep","dataloader_len":2)", R"("max_duration":"-1ba")",
        R"("max_duration":"0.5dur")", R"("max_duration":7)",
        R"("max_duration":"3ep","dataloader_len":0)",
        R"("max_duration":"3ep","dataloader_len":-9223372036854775808)", R"("max_duration":"x")"})
    EXPECT_EQ(length_of(hostile), std::nullopt) << hostile;
}

TEST_F(WatchedRunTest, TheTimeThatIsLeftFollowsFromTheRate) {
  folder_.write(kLog, std::string(kBegun) + kSaved);
  folder_.set_time(kLog, std::chrono::sys_days(std::chrono::January / 31 / 2026) +
                             std::chrono::hours(12) + std::chrono::seconds(40));
  run_.look();
  EXPECT_EQ(batches_per_second(run_.status()), 0.5);  // the file was written after 40 seconds
  EXPECT_EQ(seconds_left(run_.status()), 140.0);
}

TEST_F(WatchedRunTest, ADamagedCheckpointIsNotTheNewest) {
  folder_.save(20);
  folder_.save(30);
  folder_.damage(RunFolder::name(30), /*visibly=*/true);
  const RunStatus& status = status_of(kBegun);
  EXPECT_EQ(status.checkpoints, 2U);
  EXPECT_EQ(status.newest->name, RunFolder::name(20));
  folder_.save(30);  // again, and good
  folder_.set_time(RunFolder::name(30), RunFolder::start() + std::chrono::minutes(31));
  run_.look();
  EXPECT_EQ(status.newest->name, RunFolder::name(30));
}

TEST_F(WatchedRunTest, ACheckpointIsOpenedAgainOnlyIfItIsAnother) {
  const auto save = [&](const std::string& name, std::int64_t batch) {
    std::filesystem::rename(folder_ / folder_.save(batch), folder_ / name);
    folder_.set_time(name, RunFolder::start());
  };
  save("model.pt", 20);  // no position in its name
  run_.look();
  EXPECT_EQ(run_.status().newest->info.timestamp->batch, 20);
  // With the same size and time the damage is not seen, so the file was not opened.
  const std::string good = testing::read_file(folder_ / "model.pt");
  folder_.write("model.pt", std::string(good.size(), 'x'));
  folder_.set_time("model.pt", RunFolder::start());
  run_.look();
  EXPECT_EQ(run_.status().newest->name, "model.pt");
  folder_.write("model.pt", std::string(good.size() + 1, 'x'));
  folder_.set_time("model.pt", RunFolder::start());
  run_.look();
  EXPECT_FALSE(run_.status().newest);
}

TEST_F(WatchedRunTest, OfManyFoldersThoseThatChangedLastAreLookedInto) {
  constexpr int kFolders = 20;
  for (int i = 1; i <= kFolders; ++i) {
    const std::string name = RunFolder::name(i);
    const std::string folder = "f" + std::to_string(i);
    folder_.save(i);
    std::filesystem::create_directory(folder_ / folder);
    std::filesystem::rename(folder_ / name, folder_ / (folder + "/" + name));
    folder_.set_time(folder, RunFolder::start() + std::chrono::minutes(i));
  }
  run_.look();
  EXPECT_EQ(run_.status().newest->name, RunFolder::name(kFolders));
  EXPECT_EQ(run_.status().checkpoints, 16U);
  EXPECT_EQ(run_.status().folders_left_out, 4U);
  folder_.save(30);
  std::filesystem::rename(folder_ / RunFolder::name(30), folder_ / ("f1/" + RunFolder::name(30)));
  run_.look();
  EXPECT_EQ(run_.status().newest->name, RunFolder::name(30));
  EXPECT_EQ(run_.status().folders_left_out, 4U);
}

TEST_F(WatchedRunTest, ARunWithoutALogIsKnownByItsCheckpoints) {
  folder_.save(20);
  run_.look();
  EXPECT_EQ(run_.status().state, RunState::kUnknown);
  EXPECT_EQ(run_.status().batch, 20);
  EXPECT_EQ(run_.status().last_sign, RunFolder::start() + std::chrono::minutes(20));
  EXPECT_EQ(run_.log(), nullptr);
  EXPECT_EQ(status_of(kBegun).state, RunState::kTraining);  // the log has come
}

TEST_F(WatchedRunTest, CheckpointsAreAlsoFoundBelowAndElsewhere) {
  folder_.save(20);
  std::filesystem::create_directory(folder_ / "ckpt");
  std::filesystem::rename(folder_ / RunFolder::name(20), folder_ / "ckpt/" + RunFolder::name(20));
  EXPECT_EQ(status_of(kBegun).newest->name, RunFolder::name(20));
  std::filesystem::remove_all(folder_ / "ckpt");
  run_.look();
  EXPECT_EQ(run_.status().checkpoints, 0U);
  EXPECT_EQ(run_.status().problem, "");

  const RunFolder other;
  other.save(30);
  WatchedRun elsewhere({.run = folder_ / kLog, .checkpoints = other.path()});
  elsewhere.look();
  EXPECT_EQ(elsewhere.status().newest->name, RunFolder::name(30));
  EXPECT_EQ(elsewhere.status().batch, 10);
}

TEST_F(WatchedRunTest, WhatCannotBeReadNowIsAProblemAndNotTheEnd) {
  status_of(kBegun);
  std::filesystem::rename(folder_ / kLog, folder_ / "away");
  folder_.save(20);
  EXPECT_TRUE(run_.look());
  EXPECT_THAT(run_.status().problem, HasSubstr(kLog));
  EXPECT_EQ(run_.status().state, RunState::kTraining);
  EXPECT_EQ(run_.status().newest->name, RunFolder::name(20));
  std::filesystem::rename(folder_ / "away", folder_ / kLog);
  EXPECT_TRUE(run_.look());
  EXPECT_EQ(run_.status().problem, "");
}

// A lock, as the start of a run at that time writes it. No process has the number.
std::string lock_text(const std::string& started) {
  const Json holder = {{"run_name", "run"},
                       {"pid", 999'999'999},
                       {"host", node_name()},
                       {"started", started},
                       {"job", "job"}};
  return json_text(holder, -1);
}
const std::string kLockOfRun = lock_text("2026-01-31T12:00:01Z");

TEST_F(WatchedRunTest, OnlyTheKernelSaysThatTheProcessHasEnded) {
  const std::string path = folder_ / ".cairn-lock-1";
  testing::OtherProcess process(
      [&] { static const auto held = posix_file_system().lock_file(path, kLockOfRun).held; });
  EXPECT_EQ(state_after(kBegun), RunState::kTraining);
  process.kill();
  EXPECT_EQ(state_after(kBegun), RunState::kKilled);
  EXPECT_EQ(testing::read_file(path), kLockOfRun);
  // It is not asked again about this holder, because that may hold up a new start.
  const FileLock next = posix_file_system().lock_file(path, kLockOfRun);
  EXPECT_NE(next.held, nullptr);
  EXPECT_EQ(state_after(kBegun), RunState::kKilled);
}

TEST_F(WatchedRunTest, LocksOfOtherRunsSayNothing) {
  folder_.write(".cairn-lock-1", lock_text("2026-01-31T11:00:00Z"));
  folder_.write(".cairn-lock-2", lock_text("2026-01-31T13:00:00Z"));
  EXPECT_EQ(state_after(kBegun), RunState::kTraining);
  const testing::OtherProcess other([&] {
    static const auto held = take_run_lock(
        posix_file_system(), {.folder = folder_.path(), .run_name = "other", .job = "job"});
  });
  folder_.write(".cairn-lock-1", kLockOfRun);
  EXPECT_EQ(state_after(kBegun), RunState::kKilled);
  EXPECT_EQ(state_after(kBegun + event("50", 20, "fit_end")), RunState::kFinished);
}

TEST_F(WatchedRunTest, AProcessThatEndedWithoutAWordWasKilled) {
  const auto hold = [&] {
    static const auto held = take_run_lock(
        posix_file_system(), {.folder = folder_.path(), .run_name = "run", .job = "job"});
  };
  testing::OtherProcess process(hold);
  const std::string begun =
      R"({"time":")" + RunFolder::now_in_log() + R"(","batch":0,"event":"fit_start"})" + "\n";
  EXPECT_EQ(state_after(begun), RunState::kTraining);
  process.kill();
  EXPECT_EQ(state_after(begun), RunState::kKilled);
  // A killed run that resumed and was killed again. It logged messages before its fit_start.
  const std::string message =
      R"({"time":")" + RunFolder::now_in_log() + R"(","batch":10,"message":"resuming"})" + "\n";
  EXPECT_EQ(state_after(kBegun + message + begun), RunState::kKilled);
  // The next start of the run has not taken the lock yet.
  const std::string now =
      R"({"time":"2199-01-01T00:00:00.000Z","batch":20,"message":"still training"})"
      "\n";
  EXPECT_EQ(state_after(begun + now + event("50", 20, "fit_start")), RunState::kTraining);
}

TEST_F(WatchedRunTest, AsJsonNamesOfTheLogAreValues) {
  folder_.save(20);
  const RunStatus& status = status_of(std::string(kBegun) + kSaved +
                                      R"({"batch":11,"metric":"__proto__","value":null})" + "\n");
  const auto shown = nlohmann::json::parse(status_json(status).dump());
  EXPECT_EQ(shown.at("state"), "training");
  EXPECT_EQ(shown.at("total_batches"), 90);
  EXPECT_EQ(shown.at("begin"), "2026-01-31T12:00:00Z");
  EXPECT_EQ(shown.at("metrics").at(0),
            nlohmann::json({{"name", "__proto__"}, {"batch", 11}, {"value", nullptr}}));
  EXPECT_EQ(shown.at("newest").at("batch"), 20);
  EXPECT_EQ(shown.at("saved"), 1);
  EXPECT_EQ(shown.at("messages").at(0).at("text"), "saved a.pt  1 KiB  0.1 s");
  EXPECT_EQ(shown.at("problem"), nullptr);
}

}  // namespace
}  // namespace cairn::cli
