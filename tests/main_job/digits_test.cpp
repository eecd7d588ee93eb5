// The main job, as a user runs it. `digits` is killed, stopped and started again with the same
// command, and ends with the bits of an undisturbed run.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/exit_code.h"

#include "digits_job.h"
#include "testing/child_process.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using testing::ChildProcess;
using testing::Flags;
using testing::TempFolder;
using testing::operator+;
using Job = testing::DigitsJob;

constexpr int kBatchesPerEpoch = testing::kDigitsBatchesPerEpoch;
constexpr int kEpochs = 3;

std::string name_at(int batch) {
  // The last batch of an epoch is saved before the epoch counts as done.
  return "ep" + std::to_string((batch - 1) / kBatchesPerEpoch) + "-ba" + std::to_string(batch) +
         "-rank0.pt";
}

const Flags kShort = {"--max-duration", std::to_string(kEpochs), "--save-interval", "7ba"};

// The final weights of an undisturbed short run.
const Value& straight_weights() {
  static const Value* weights = [] {
    const TempFolder folder;
    const Job job(folder.path(), kShort);
    job.finish();
    return new Value(load(job.weights()));
  }();
  return *weights;
}

class MainJob : public ::testing::TestWithParam<const char*> {};

TEST_P(MainJob, KilledAtSeveralBatchesEndsWithTheSameBits) {
  const TempFolder folder;
  const Job job(folder.path(), kShort + Flags{GetParam()});
  // Before the first checkpoint, at one, at the end of an epoch, and in the last epoch.
  for (const int batch : {3, 28, kBatchesPerEpoch, 100})
    job.kill_at(batch);
  const std::string output = job.finish();
  EXPECT_NE(output.find("going on from"), std::string::npos) << output;
  EXPECT_EQ(load(job.weights()), straight_weights());
}

INSTANTIATE_TEST_SUITE_P(AsyncAndNot, MainJob, ::testing::Values("--save-async", "--no-save-async"),
                         [](const auto& test) {
                           return std::string(test.param) == "--save-async" ? "async" : "sync";
                         });

// A kill may tear an asynchronous save. The run resumes from a save that was durable when its event
// returned.
TEST(MainJob, SynchronousSaveOfTheKilledBatchIsFoundAgain) {
  const TempFolder folder;
  const Job job(folder.path(), kShort + Flags{"--no-save-async"});
  job.kill_at(28);
  EXPECT_TRUE(verify(job.checkpoint(name_at(28))).ok());
  EXPECT_EQ(fs::read_symlink(job.checkpoint("latest-rank0.pt")), name_at(28));
  EXPECT_NE(job.finish().find(name_at(28)), std::string::npos);
}

TEST(MainJob, KilledAtRandomEndsWithTheSameBits) {
  const TempFolder folder;
  const Job job(folder.path(), kShort);
  job.kill_at_random(6);
  job.finish();
  EXPECT_EQ(load(job.weights()), straight_weights());
}

// A run far longer than any test waits for, which saves every batch and prints it.
const Flags kEndless = {"--max-duration",
                        "100000ep",
                        "--save-interval",
                        "1ba",
                        "--no-save-async",
                        "--save-num-checkpoints-to-keep",
                        "2"};

int batch_in(const std::string& line) {
  const std::size_t at = line.find("at batch ");
  return at == std::string::npos ? -1 : std::stoi(line.substr(at + 9));
}

class Signal : public ::testing::TestWithParam<int> {};

TEST_P(Signal, SavesAndAsksToBeRunAgain) {
  const TempFolder folder;
  const Job job(folder.path(), kEndless);
  const auto program = job.start();
  ASSERT_TRUE(program->wait_for_line("saved ")) << program->output();
  program->send(GetParam());
  const auto line = program->wait_for_line(": stopping at batch ");
  ASSERT_TRUE(line) << program->output();
  EXPECT_EQ(program->wait().exit_code, 75) << program->output();
  EXPECT_FALSE(fs::exists(job.weights()));
  const int stopped_at = batch_in(*line);
  EXPECT_TRUE(verify(job.checkpoint(name_at(stopped_at))).ok());

  // It resumes with the bits of a run that was never stopped.
  job.kill_at(stopped_at + 10);
  const TempFolder other_folder;
  const Job other(other_folder.path(), kEndless);
  other.kill_at(stopped_at + 10);
  const std::string name = name_at(stopped_at + 10);
  EXPECT_EQ(load(job.checkpoint(name)).at("state").at("model"),
            load(other.checkpoint(name)).at("state").at("model"));
}

INSTANTIATE_TEST_SUITE_P(ThatStops, Signal, ::testing::Values(SIGTERM, SIGINT),
                         [](const auto& test) { return test.param == SIGTERM ? "TERM" : "INT"; });

TEST(MainJob, WatchSeesThatItWasInterrupted) {
  const TempFolder folder;
  const Job job(folder.path(), kEndless);
  const std::string log = folder / "log.jsonl";
  const auto program = job.start({"--log-file", log});
  ChildProcess watch({CAIRN_TOOL, "watch", "--wait", "--interval", "1s", log});
  ASSERT_TRUE(watch.wait_for_line("saved ")) << watch.output();
  program->send(SIGTERM);
  EXPECT_EQ(program->wait().exit_code, 75) << program->output();
  EXPECT_EQ(watch.wait().exit_code, 75) << watch.output();
}

TEST(MainJob, WatchSaysWhyItFailed) {
  const TempFolder folder;
  const std::string log = folder / "log.jsonl";
  const Job job(folder.path(), {"--log-file", log, "--load-path", folder / "nothing.pt"});
  const std::string output = job.finish({}, kNotFound);
  ChildProcess watch({CAIRN_TOOL, "watch", "--once", log});
  EXPECT_EQ(watch.wait().exit_code, kNegativeAnswer) << watch.output();
  EXPECT_NE(watch.output().find("the run failed: "), std::string::npos) << watch.output();
  EXPECT_EQ(output.find("the run failed: "), std::string::npos) << "the program says it already";
}

// Saves at batch 100, and then not while the test asks for a save.
const Flags kSeldom = {"--max-duration", "100000ep", "--save-interval", "100ba"};

TEST(MainJob, Usr2SavesAndGoesOn) {
  const TempFolder folder;
  const Job job(folder.path(), kSeldom);
  const auto program = job.start();
  ASSERT_TRUE(program->wait_for_line("saved ")) << program->output();
  program->send(SIGUSR2);
  const auto line = program->wait_for_line("SIGUSR2: going on at batch ");
  ASSERT_TRUE(line) << program->output();
  program->send(SIGTERM);
  EXPECT_EQ(program->wait().exit_code, 75) << program->output();
  EXPECT_TRUE(verify(job.checkpoint(name_at(batch_in(*line)))).ok());
}

TEST(MainJob, TouchedFileSavesAndGoesOn) {
  const TempFolder folder;
  const Job job(folder.path(), kSeldom);
  const auto program = job.start();
  ASSERT_TRUE(program->wait_for_line("saved ")) << program->output();
  testing::write_file(job.checkpoint("SAVE"), "");
  const auto line = program->wait_for_line("SAVE: going on at batch ");
  ASSERT_TRUE(line) << program->output();
  EXPECT_FALSE(fs::exists(job.checkpoint("SAVE")));
  program->send(SIGTERM);
  EXPECT_EQ(program->wait().exit_code, 75) << program->output();
  EXPECT_TRUE(verify(job.checkpoint(name_at(batch_in(*line)))).ok());
}

TEST(MainJob, FinishedJobSaysSoAndSucceeds) {
  const TempFolder folder;
  const Job job(folder.path(), {"--max-duration", "1ep"});
  job.finish();
  const Value first = load(job.weights());
  const std::set<std::string> names = job.checkpoints();
  fs::remove(job.weights());
  const std::string output = job.finish();
  EXPECT_NE(output.find("finished"), std::string::npos) << output;
  EXPECT_EQ(load(job.weights()), first);
  EXPECT_EQ(job.checkpoints(), names);
}

TEST(MainJob, KeepsTwoCheckpointsOverRestarts) {
  const TempFolder folder;
  const Job job(folder.path(), kShort + Flags{"--save-num-checkpoints-to-keep", "2"});
  for (const int batch : {30, 62, 95}) {
    job.kill_at(batch);
    // The link, and the lock and file of the killed process.
    EXPECT_LE(job.checkpoints().size(), 2 + 3U);
  }
  job.finish();
  EXPECT_EQ(job.checkpoints(),
            (std::set<std::string>{name_at(133), "ep3-ba135-rank0.pt", "latest-rank0.pt"}));
}

TEST(MainJob, LearnsToReadDigits) {
  const TempFolder folder;
  const std::string output = Job(folder.path()).finish();
  EXPECT_GE(testing::accuracy_in(output), 0.95) << output;
}

}  // namespace
}  // namespace cairn
