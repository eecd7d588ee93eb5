#include "train/engine/stop_request.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <thread>
#include <utility>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/error.h"
#include "cairn/train/trainer.h"

#include "testing/temp_folder.h"
#include "testing/tiny_model.h"
#include "train/engine/signal_watch.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using testing::CallAt;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::TempFolder;
using testing::tiny_loader;
using testing::tiny_options;
using testing::write_file;

// A clock that stands still until it is moved.
struct FakeClock {
  std::chrono::steady_clock::time_point now = {};
  std::function<std::chrono::steady_clock::time_point()> function() {
    return [this] { return now; };
  }
};

TEST(StopRequestTest, NothingIsAskedAtFirst) {
  StopRequest request({});
  const Requests asked = request.poll();
  EXPECT_FALSE(asked.save);
  EXPECT_FALSE(asked.stop);
  EXPECT_EQ(asked.reason, "");
}

TEST(StopRequestTest, SignalsAreAskedOnce) {
  StopRequest request({});
  raise(SIGUSR2);
  Requests asked = request.poll();
  EXPECT_TRUE(asked.save);
  EXPECT_FALSE(asked.stop);
  EXPECT_EQ(asked.reason, "SIGUSR2");
  EXPECT_FALSE(request.poll().save);
  raise(SIGUSR1);
  asked = request.poll();
  EXPECT_TRUE(asked.stop);
  EXPECT_EQ(asked.reason, "SIGUSR1");
  EXPECT_FALSE(request.poll().stop);
}

TEST(StopRequestTest, FirstInterruptStopsAndTheSecondLeavesAtOnce) {
  {
    StopRequest request({});
    raise(SIGTERM);
    const Requests asked = request.poll();
    EXPECT_TRUE(asked.save && asked.stop);
    EXPECT_EQ(asked.reason, "SIGTERM");
  }
  const auto twice = [](int first, int second) {
    StopRequest request({});
    raise(first);
    request.poll();
    raise(second);
    FAIL() << "still here";
  };
  EXPECT_EXIT(twice(SIGTERM, SIGTERM), ::testing::KilledBySignal(SIGTERM), "");
  EXPECT_EXIT(twice(SIGTERM, SIGINT), ::testing::KilledBySignal(SIGINT), "");
}

// Slurm sends SIGUSR1 as a warning, and later SIGTERM.
TEST(StopRequestTest, WarningBeforeTheEndIsNoFirstInterrupt) {
  StopRequest request({});
  raise(SIGUSR1);
  request.poll();
  raise(SIGTERM);
  EXPECT_TRUE(request.poll().stop);
}

TEST(StopRequestTest, HandlersOfBeforeComeBack) {
  static int caught;
  caught = 0;
  struct sigaction mine = {};
  struct sigaction before = {};
  mine.sa_handler = [](int) { ++caught; };
  sigaction(SIGUSR1, &mine, &before);
  {
    StopRequest request({});
    raise(SIGUSR1);
    EXPECT_EQ(caught, 0);
  }
  raise(SIGUSR1);
  EXPECT_EQ(caught, 1);
  sigaction(SIGUSR1, &before, nullptr);
}

TEST(StopRequestTest, IgnoredSignalsStayIgnored) {
  signal(SIGINT, SIG_IGN);
  {
    StopRequest request({});
    raise(SIGINT);
    EXPECT_FALSE(request.poll().stop);
  }
  signal(SIGINT, SIG_DFL);
}

TEST(StopRequestTest, OnlyOneHandlesSignals) {
  StopRequest first({});
  EXPECT_THROW(StopRequest({}), UsageError);
  EXPECT_NO_THROW(StopRequest({.handle_signals = false}));
}

TEST(StopRequestTest, OneThatRestsLeavesTheSignalsToAnother) {
  StopRequest first({});
  first.stop_handling();
  {
    StopRequest second({});
    EXPECT_THROW(first.resume_handling(), UsageError);
    raise(SIGUSR2);
    EXPECT_FALSE(first.poll().save);
    EXPECT_TRUE(second.poll().save);
  }
  first.resume_handling();
  EXPECT_THROW(first.resume_handling(), UsageError) << "a fit() inside a fit()";
  raise(SIGUSR2);
  EXPECT_TRUE(first.poll().save);
}

TEST(StopRequestTest, FilesAreServedAndRemoved) {
  const TempFolder folder;
  FakeClock clock;
  StopRequest request({.handle_signals = false, .folder = folder.path(), .now = clock.function()});
  write_file(folder / "SAVE", "");
  Requests asked = request.poll();
  EXPECT_TRUE(asked.save);
  EXPECT_FALSE(asked.stop);
  EXPECT_EQ(asked.reason, folder / "SAVE");
  EXPECT_FALSE(std::filesystem::exists(folder / "SAVE"));
  write_file(folder / "STOP", "");
  EXPECT_FALSE(request.poll().stop) << "looked again too soon";
  clock.now += milliseconds(500);
  asked = request.poll();
  EXPECT_TRUE(asked.save && asked.stop);
  EXPECT_FALSE(std::filesystem::exists(folder / "STOP"));
}

TEST(StopRequestTest, MissingFolderAsksNothing) {
  StopRequest request({.handle_signals = false, .folder = "/nowhere/at/all"});
  EXPECT_FALSE(request.poll().save);
}

TEST(SignalWatchTest, RequestsOfBeforeAreRemembered) {
  const SignalWatch watch;
  raise(SIGUSR2);
  raise(SIGTERM);
  EXPECT_TRUE(is_stop_asked());
  StopRequest request({});
  const Requests asked = request.poll();
  EXPECT_TRUE(asked.save && asked.stop);
}

TEST(SignalWatchTest, HandlersStayAsLongAsAnyoneNeedsThem) {
  const SignalWatch watch;
  { StopRequest request({}); }
  { const SignalWatch other; }
  raise(SIGUSR2);  // Without a handler, this signal would kill the process.
  EXPECT_EQ(take_signals().save, SIGUSR2);
}

TEST(SignalWatchTest, WhereNobodyServesAnInterruptEndsTheProcessAndTheOthersDoNothing) {
  const auto interrupted = [] {
    SignalWatch watch;
    watch.expect_to_serve(false);
    raise(SIGUSR1);
    raise(SIGUSR2);
    raise(SIGTERM);
    FAIL() << "still here";
  };
  EXPECT_EXIT(interrupted(), ::testing::KilledBySignal(SIGTERM), "");
  const auto interrupted_before = [] {
    SignalWatch watch;
    raise(SIGTERM);
    watch.expect_to_serve(false);
    leave_if_interrupted();
    FAIL() << "still here";
  };
  EXPECT_EXIT(interrupted_before(), ::testing::KilledBySignal(SIGTERM), "");
}

// --- In a Trainer --------------------------------------------------------------------------------

struct StopTraining : ::testing::Test {
  TrainerOptions options() {
    TrainerOptions made = tiny_options();
    made.run_name = "run";
    made.save_folder = folder / "ckpt";
    made.save_interval = "100ep";
    made.handle_signals = true;
    made.autoresume = true;
    return made;
  }
  TempFolder folder;
};

TEST_F(StopTraining, SigtermSavesThisBatchAndEndsWith75) {
  TrainerOptions made = options();
  made.callbacks = CallAt(Event::kBatchEnd, [](State& state) {
    if (state.timestamp.batch == 3) raise(SIGTERM);
  });
  Trainer trainer(made);
  const FitResult result = trainer.fit();
  EXPECT_EQ(result.reason, FitResult::Reason::kInterrupted);
  EXPECT_EQ(result.exit_code, 75);
  EXPECT_EQ(trainer.state().timestamp.batch, 3);
  EXPECT_TRUE(std::filesystem::exists(folder / "ckpt/ep0-ba3-rank0.pt"));
  made.model = options().model;
  made.callbacks = {};
  Trainer resumed(std::move(made));
  EXPECT_EQ(resumed.state().timestamp.batch, 3);
  EXPECT_EQ(resumed.fit().reason, FitResult::Reason::kFinished);
}

TEST_F(StopTraining, SaveFileSavesAndTrainingGoesOn) {
  TrainerOptions made = options();
  made.callbacks =
      CallAt(Event::kFitStart, [&](State& /*state*/) { write_file(folder / "ckpt/SAVE", ""); });
  Trainer trainer(std::move(made));
  EXPECT_EQ(trainer.fit().reason, FitResult::Reason::kFinished);
  EXPECT_TRUE(std::filesystem::exists(folder / "ckpt/ep0-ba1-rank0.pt"));
  EXPECT_FALSE(std::filesystem::exists(folder / "ckpt/SAVE"));
}

TEST_F(StopTraining, StopFileStops) {
  TrainerOptions made = options();
  made.callbacks =
      CallAt(Event::kFitStart, [&](State& /*state*/) { write_file(folder / "ckpt/STOP", ""); });
  Trainer trainer(std::move(made));
  EXPECT_EQ(trainer.fit().reason, FitResult::Reason::kInterrupted);
  EXPECT_EQ(trainer.state().timestamp.batch, 1);
}

// The calls of fit() are so short that the stop request is never polled after a batch.
TEST_F(StopTraining, StopFileStopsTheNextOfManyShortFitsAndOnlyThat) {
  TrainerOptions made = options();
  made.max_duration = "1ba";
  Trainer trainer(std::move(made));
  EXPECT_EQ(trainer.fit().reason, FitResult::Reason::kFinished);
  write_file(folder / "ckpt/STOP", "");
  EXPECT_EQ(trainer.fit({.duration = "1ba"}).reason, FitResult::Reason::kInterrupted);
  EXPECT_EQ(trainer.state().timestamp.batch, 1);
  EXPECT_FALSE(std::filesystem::exists(folder / "ckpt/STOP"));
  EXPECT_EQ(trainer.fit({.duration = "1ba"}).reason, FitResult::Reason::kFinished);
  EXPECT_EQ(trainer.state().timestamp.batch, 2);
}

// In this program each batch is the last batch of a fit().
TEST_F(StopTraining, SigtermStopsAProgramOfShortFits) {
  TrainerOptions made = options();
  made.max_duration = "1ba";
  made.callbacks = CallAt(Event::kBatchEnd, [](State& state) {
    if (state.timestamp.batch == 2) raise(SIGTERM);
  });
  Trainer trainer(std::move(made));
  EXPECT_EQ(trainer.fit().reason, FitResult::Reason::kFinished);
  EXPECT_EQ(trainer.fit({.duration = "1ba"}).reason, FitResult::Reason::kFinished);
  EXPECT_EQ(trainer.fit({.duration = "1ba"}).reason, FitResult::Reason::kInterrupted);
  EXPECT_EQ(trainer.state().timestamp.batch, 2);
  EXPECT_TRUE(std::filesystem::exists(folder / "ckpt/ep0-ba2-rank0.pt"));
}

TEST_F(StopTraining, SaveFileThatIsThereBeforeFitIsServedBehindItsFirstBatch) {
  Trainer trainer(options());
  write_file(folder / "ckpt/SAVE", "");
  EXPECT_EQ(trainer.fit().reason, FitResult::Reason::kFinished);
  EXPECT_TRUE(std::filesystem::exists(folder / "ckpt/ep0-ba1-rank0.pt"));
  EXPECT_FALSE(std::filesystem::exists(folder / "ckpt/SAVE"));
}

TEST_F(StopTraining, SaveSignalBeforeAndAfterFitKillsNobody) {
  TrainerOptions made = options();
  Trainer trainer(std::move(made));
  raise(SIGUSR2);
  EXPECT_EQ(trainer.fit().reason, FitResult::Reason::kFinished);
  EXPECT_TRUE(std::filesystem::exists(folder / "ckpt/ep0-ba1-rank0.pt")) << "remembered";
  raise(SIGUSR1);
  raise(SIGUSR2);
  trainer.eval(Evaluator("more", tiny_loader(2)));
  trainer.close();
  EXPECT_EQ(signal(SIGUSR2, SIG_DFL), SIG_DFL) << "put back";
}

TEST_F(StopTraining, SigtermWhileLoadingStopsBeforeTheFirstBatch) {
  TrainerOptions made = options();
  made.callbacks = CallAt(Event::kAfterLoad, [](State& /*state*/) { raise(SIGTERM); });
  Trainer trainer(std::move(made));
  const FitResult result = trainer.fit();
  EXPECT_EQ(result.reason, FitResult::Reason::kInterrupted);
  EXPECT_EQ(result.exit_code, 75);
  EXPECT_EQ(trainer.state().timestamp.batch, 0);
}

// Fits of one batch, and a saver that saves only on request.
struct ShortFits : StopTraining {
  TrainerOptions options() {
    TrainerOptions made = StopTraining::options();
    made.max_duration = "1ba";
    made.save_interval = [](const State& /*state*/, Event /*event*/) { return false; };
    made.loggers = log;
    return made;
  }
  bool is_saved(const std::string& name) const {
    return std::filesystem::exists(folder / ("ckpt/" + name));
  }
  std::shared_ptr<testing::LogRecorder> log = std::make_shared<testing::LogRecorder>();
};

TEST_F(ShortFits, ASaveIsServedBehindTheLastBatchWhenThatIsTheFirst) {
  Trainer trainer(options());
  write_file(folder / "ckpt/SAVE", "");
  EXPECT_EQ(trainer.fit().reason, FitResult::Reason::kFinished);
  EXPECT_TRUE(is_saved("ep0-ba1-rank0.pt"));
  EXPECT_FALSE(std::filesystem::exists(folder / "ckpt/SAVE"));
  raise(SIGUSR2);
  EXPECT_EQ(trainer.fit({.duration = "1ba"}).reason, FitResult::Reason::kFinished);
  EXPECT_TRUE(is_saved("ep0-ba2-rank0.pt"));
  EXPECT_EQ(trainer.fit({.duration = "1ba"}).reason, FitResult::Reason::kFinished);
  EXPECT_FALSE(is_saved("ep0-ba3-rank0.pt")) << "served twice";
}

TEST_F(ShortFits, ASaveThatAFailedFitTookIsServedByTheNext) {
  TrainerOptions made = options();
  made.callbacks = CallAt(Event::kBatchStart, [fails = true](State& /*state*/) mutable {
    if (std::exchange(fails, false)) throw UsageError("the first time");
  });
  Trainer trainer(std::move(made));
  write_file(folder / "ckpt/SAVE", "");
  EXPECT_THROW(trainer.fit(), UsageError);
  EXPECT_EQ(trainer.fit().reason, FitResult::Reason::kFinished);
  EXPECT_TRUE(is_saved("ep0-ba1-rank0.pt"));
}

// The resumed fit() has no batch left.
TEST_F(ShortFits, ASaveIsServedByAFitThatOnlyEndsItsEpoch) {
  TrainerOptions made = options();
  made.max_duration = "1ep";
  made.callbacks = CallAt(Event::kEpochEnd, [](State& /*state*/) { throw UsageError("killed"); });
  made.save_interval = "5ba";
  {
    Trainer killed(made);
    EXPECT_THROW(killed.fit(), UsageError);
  }
  made.model = options().model;
  made.callbacks = {};
  made.save_interval = options().save_interval;
  Trainer resumed(std::move(made));
  ASSERT_EQ(resumed.state().timestamp.batch, 5);
  write_file(folder / "ckpt/SAVE", "");
  EXPECT_EQ(resumed.fit().reason, FitResult::Reason::kAlreadyFinished);
  EXPECT_TRUE(is_saved("ep1-ba5-rank0.pt"));
}

TEST_F(ShortFits, OnlyTheVeryFirstIsStoppedWithoutASave) {
  Trainer trainer(options());
  write_file(folder / "ckpt/STOP", "");
  EXPECT_EQ(trainer.fit().reason, FitResult::Reason::kInterrupted);
  EXPECT_FALSE(is_saved("ep0-ba0-rank0.pt"));
  EXPECT_THAT(log->messages, Contains(HasSubstr("before anything was trained")));
  log->messages.clear();
  EXPECT_EQ(trainer.fit().reason, FitResult::Reason::kFinished);
  EXPECT_FALSE(is_saved("ep0-ba1-rank0.pt"));
  write_file(folder / "ckpt/STOP", "");
  EXPECT_EQ(trainer.fit({.duration = "1ba"}).reason, FitResult::Reason::kInterrupted);
  EXPECT_EQ(trainer.state().timestamp.batch, 1);
  EXPECT_TRUE(is_saved("ep0-ba1-rank0.pt"));
  EXPECT_THAT(log->messages, Contains(HasSubstr("stopping at batch 1, saved")));
}

// The epoch has ended since the save, but the name is the same.
TEST_F(ShortFits, AStopBehindASavedBatchSavesItNoSecondTime) {
  TrainerOptions made = options();
  made.max_duration = "5ba";
  made.save_filename = "ba{batch}.pt";
  made.save_interval = "5ba";
  Trainer trainer(std::move(made));
  EXPECT_EQ(trainer.fit().reason, FitResult::Reason::kFinished);
  EXPECT_EQ(trainer.state().timestamp.epoch, 1);
  write_file(folder / "ckpt/STOP", "");
  EXPECT_EQ(trainer.fit({.duration = "1ba"}).reason, FitResult::Reason::kInterrupted);
  EXPECT_EQ(std::ranges::count_if(log->messages,
                                  [](const std::string& message) {
                                    return message.starts_with("saved ") &&
                                           message.find("ba5.pt") != std::string::npos;
                                  }),
            1);
}

TEST_F(ShortFits, EvalBehindASigtermOfTheLastBatchLeavesItToTheNextFit) {
  TrainerOptions made = options();
  made.callbacks = CallAt(Event::kBatchEnd, [](State& /*state*/) { raise(SIGTERM); });
  Trainer trainer(std::move(made));
  EXPECT_EQ(trainer.fit().reason, FitResult::Reason::kFinished);
  trainer.eval(Evaluator("more", tiny_loader(2)));  // eval() is not stopped.
  EXPECT_EQ(trainer.fit({.duration = "1ba"}).reason, FitResult::Reason::kInterrupted);
  EXPECT_EQ(trainer.state().timestamp.batch, 1);
  EXPECT_TRUE(is_saved("ep0-ba1-rank0.pt"));
}

// Slurm's warning, in a program that evaluates the loaded model before it trains.
TEST_F(ShortFits, EvalBeforeFitForgetsNoWarning) {
  Trainer trainer(options());
  raise(SIGUSR1);
  trainer.eval(Evaluator("first", tiny_loader(2)));
  EXPECT_EQ(trainer.fit().reason, FitResult::Reason::kInterrupted);
}

// If a save is known to have failed, its batch does not count as saved, even if no caller has
// waited for the save.
TEST_F(ShortFits, WhatFailedIsThrownAndThenSavedAgain) {
  Trainer trainer(options());
  CheckpointSaver saver({.folder = folder / "own", .filename = "{batch}/x.pt"});
  std::filesystem::create_directories(folder / "own");
  write_file(folder / "own/0", "in the way");
  saver.save(trainer.state(), trainer.logger());
  const auto ask_until_it_failed = [&] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < end) {
      saver.save_unless_saved(trainer.state(), trainer.logger());
      std::this_thread::yield();
    }
  };
  EXPECT_THROW(ask_until_it_failed(), Error);
  std::filesystem::remove(folder / "own/0");
  saver.save_unless_saved(trainer.state(), trainer.logger());
  EXPECT_THAT(saver.saved_checkpoints(), ::testing::ElementsAre(folder / "own/0/x.pt"));
}

// The save of batch 2 fails in the background. A stop is requested so that batch 3 is the last
// batch.
struct AfterAFailedSave : StopTraining {
  TrainerOptions options() {
    TrainerOptions made = StopTraining::options();
    made.save_filename = "ba{batch}/rank{rank}.pt";
    return made;
  }
  // Puts a file where the save needs a folder.
  void obstruct(const std::string& name) const { write_file(folder / ("ckpt/" + name), ""); }
  FitResult stopped_at_3(TrainerOptions made) {
    made.loggers = log;
    made.callbacks = CallAt(Event::kBatchEnd, [this](State& state) {
      if (state.timestamp.batch == 2) {
        obstruct("ba2");
        if (!is_saved_anyway) raise(SIGUSR2);
      } else if (state.timestamp.batch == 3) {
        raise(SIGTERM);
      }
    });
    Trainer trainer(std::move(made));
    const FitResult result = trainer.fit();
    EXPECT_EQ(trainer.state().timestamp.batch, 3);
    EXPECT_NO_THROW(trainer.close());
    return result;
  }
  bool is_saved_anyway = false;
  std::shared_ptr<testing::LogRecorder> log = std::make_shared<testing::LogRecorder>();
};

TEST_F(AfterAFailedSave, SigtermSavesFirstAndReportsTheErrorAfterwards) {
  const FitResult result = stopped_at_3(options());
  EXPECT_EQ(result.reason, FitResult::Reason::kInterrupted);
  EXPECT_EQ(result.exit_code, 75);
  EXPECT_TRUE(std::filesystem::exists(folder / "ckpt/ba3/rank0.pt"));
  EXPECT_THAT(log->messages, Contains(AllOf(HasSubstr("warning"), HasSubstr("ba2"))));
}

TEST_F(AfterAFailedSave, AlsoWhenASaveWasDueAnyway) {
  TrainerOptions made = options();
  made.save_interval = "1ba";
  is_saved_anyway = true;
  EXPECT_EQ(stopped_at_3(std::move(made)).exit_code, 75);
  EXPECT_TRUE(std::filesystem::exists(folder / "ckpt/ba3/rank0.pt"));
  EXPECT_THAT(log->messages, Contains(AllOf(HasSubstr("warning"), HasSubstr("ba2"))));
}

TEST_F(AfterAFailedSave, TheErrorEndsTrainingWhenNobodyAskedToStop) {
  TrainerOptions made = options();
  made.save_interval = "1ba";
  made.callbacks = CallAt(Event::kFitStart, [this](State& /*state*/) { obstruct("ba2"); });
  Trainer trainer(std::move(made));
  EXPECT_THROW(trainer.fit(), UsageError);
}

// fit() would go on for long, so a batch throws the error, not the end of fit().
TEST_F(AfterAFailedSave, TheErrorIsThrownByABatchSoonBehindIt) {
  TrainerOptions made = options();
  made.max_duration = "1000000ba";
  made.save_interval = [](const State& state, Event event) {
    return event == Event::kBatchCheckpoint && state.timestamp.batch == 2;
  };
  made.callbacks = CallAt(Event::kFitStart, [this](State& /*state*/) { obstruct("ba2"); });
  made.callbacks.push_back(CallAt(Event::kBatchStart, [](State& state) {
    if (state.timestamp.batch > 20000) throw StorageError("too late", 0);
  }));
  Trainer trainer(std::move(made));
  EXPECT_THROW(trainer.fit(), UsageError);
}

TEST_F(AfterAFailedSave, ALastSaveThatFailsIsNoOrderlyStop) {
  TrainerOptions made = options();
  made.callbacks = CallAt(Event::kBatchEnd, [this](State& /*state*/) {
    obstruct("ba1");
    raise(SIGTERM);
  });
  Trainer trainer(std::move(made));
  EXPECT_THROW(trainer.fit(), UsageError);
}

}  // namespace
}  // namespace cairn
