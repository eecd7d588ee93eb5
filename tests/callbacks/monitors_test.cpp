// SpeedMonitor, LRMonitor, NaNMonitor and EarlyStopper.

#include <gmock/gmock.h>

#include "cairn/callbacks/early_stopper.h"
#include "cairn/callbacks/lr_monitor.h"
#include "cairn/callbacks/nan_monitor.h"
#include "cairn/callbacks/speed_monitor.h"
#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/schedulers/schedulers.h"
#include "cairn/train/trainer.h"

#include "testing/message_of.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using testing::CallAt;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::LogRecorder;
using testing::message_of;
using ::testing::SizeIs;
using testing::tiny_options;

// --- SpeedMonitor: driven by hand, since its input is the clock ----------------------------------

struct SpeedMonitorTest : ::testing::Test {
  SpeedMonitorTest() : trainer(options()) {}
  TrainerOptions options() {
    TrainerOptions made = tiny_options();
    made.loggers = {log};
    return made;
  }
  void batch(SpeedMonitor& monitor, int seconds, std::int64_t tokens = 0) {
    State& state = trainer.state();
    state.timestamp = state.timestamp.to_next_batch(
        8, tokens, TimeDelta{.days = 0, .seconds = seconds, .microseconds = 0});
    monitor.batch_end(state, trainer.logger());
  }
  std::shared_ptr<LogRecorder> log = std::make_shared<LogRecorder>();
  Trainer trainer;
};

TEST_F(SpeedMonitorTest, ThroughputIsTheMeanOfAFullWindow) {
  SpeedMonitor monitor({.window_size = 2, .time_unit = "seconds"});
  batch(monitor, 100);
  batch(monitor, 1);
  EXPECT_THAT(log->values("throughput/batches_per_sec"), IsEmpty());
  batch(monitor, 3);  // Two batches in 4 s.
  batch(monitor, 1);  // Two batches in 4 s again.
  EXPECT_THAT(log->values("throughput/batches_per_sec"), ElementsAre(0.5, 0.5));
  EXPECT_THAT(log->values("throughput/samples_per_sec"), ElementsAre(4, 4));
  EXPECT_THAT(log->values("throughput/device/samples_per_sec"), ElementsAre(4, 4));
  EXPECT_THAT(log->values("throughput/tokens_per_sec"), IsEmpty());
  EXPECT_THAT(log->values("time/train"), ElementsAre(100, 101, 104, 105));
}

TEST_F(SpeedMonitorTest, TokensAreCountedWhereThereAreSome) {
  SpeedMonitor monitor({.window_size = 1});
  batch(monitor, 1, 10);
  batch(monitor, 2, 10);
  EXPECT_THAT(log->values("throughput/tokens_per_sec"), ElementsAre(5));
}

TEST_F(SpeedMonitorTest, TimeOfEvaluationIsKeptInCheckpoints) {
  SpeedMonitor monitor({.time_unit = "minutes"});
  trainer.state().eval_timestamp.total_wct = TimeDelta{.days = 0, .seconds = 90, .microseconds = 0};
  monitor.eval_end(trainer.state(), trainer.logger());
  EXPECT_EQ(monitor.state_dict(), Value(Dict{{"total_eval_wct", 90.0}}));
  SpeedMonitor resumed({.time_unit = "minutes"});
  resumed.load_state_dict(monitor.state_dict());
  batch(resumed, 30);
  EXPECT_THAT(log->values("time/val"), ElementsAre(1.5));
  EXPECT_THAT(log->values("time/total"), ElementsAre(2.0));
  EXPECT_THROW(resumed.load_state_dict(Dict()), MismatchError);
}

TEST(SpeedMonitorOptionsTest, ImpossibleOnesAreRefused) {
  EXPECT_THROW(SpeedMonitor({.window_size = 0}), UsageError);
  EXPECT_THROW(SpeedMonitor({.time_unit = "fortnights"}), UsageError);
}

// --- LRMonitor -----------------------------------------------------------------------------------

TEST(LRMonitorTest, LogsTheRateOfEveryGroupAfterEachBatch) {
  auto log = std::make_shared<LogRecorder>();
  TrainerOptions made = tiny_options();
  made.optimizers = AdamW({.lr = 0.5});
  made.schedulers = LinearScheduler({.alpha_i = 1.0, .alpha_f = 0.0});
  made.max_duration = "4ba";
  made.callbacks = LRMonitor();
  made.loggers = {log};
  Trainer trainer(std::move(made));
  trainer.fit();
  EXPECT_THAT(log->values("lr-AdamW/group0"), SizeIs(4));
  EXPECT_LT(log->values("lr-AdamW/group0").back(), 0.5);
}

// --- NaNMonitor ----------------------------------------------------------------------------------

TEST(NaNMonitorTest, StopsBeforeAnyWeightBecomesNaN) {
  TrainerOptions made = tiny_options();
  made.callbacks = {CallAt(Event::kAfterDataloader,
                           [](State& state) {
                             if (state.timestamp.batch == 2) state.batch[0].fill_(std::nan(""));
                           }),
                    NaNMonitor()};
  Trainer trainer(std::move(made));
  try {
    trainer.fit();
    FAIL() << "no error";
  } catch (const TrainingError& e) {
    EXPECT_THAT(e.what(), HasSubstr("batch 2"));
  }
  EXPECT_FALSE(testing::weights_of(*trainer.state().model).isnan().any().item<bool>());
}

// --- EarlyStopper: driven by hand with the values a metric would have ----------------------------

struct EarlyStopperTest : ::testing::Test {
  EarlyStopperTest() : trainer(tiny_options()) {}
  // Whether training continues after an epoch that ends with `value`.
  bool epoch(EarlyStopper& stopper, double value) {
    State& state = trainer.state();
    state.dataloader_label = "train";
    state.timestamp = state.timestamp.to_next_batch(2, 0, {}).to_next_epoch();
    state.metric_values["train"] = Dict{{"Accuracy", value}, {"CrossEntropy", value}};
    stopper.epoch_end(state, trainer.logger());
    // stop_training() sets a duration in batches.
    return state.max_duration->unit() == TimeUnit::kEpoch;
  }
  void SetUp() override { trainer.state().max_duration = Time("100ep"); }
  Trainer trainer;
};

TEST_F(EarlyStopperTest, StopsWhenPatienceIsExceeded) {
  EarlyStopper stopper({.monitor = "Accuracy", .dataloader_label = "train", .patience = "1ep"});
  EXPECT_TRUE(epoch(stopper, 0.5));
  EXPECT_TRUE(epoch(stopper, 0.6));
  EXPECT_TRUE(epoch(stopper, 0.6));
  EXPECT_FALSE(epoch(stopper, 0.55));
}

TEST_F(EarlyStopperTest, LessIsBetterForLosses) {
  EarlyStopper stopper({.monitor = "CrossEntropy", .dataloader_label = "train"});
  EXPECT_TRUE(epoch(stopper, 0.5));
  EXPECT_TRUE(epoch(stopper, 0.4));
  EXPECT_EQ(stopper.state_dict().at("best"), Value(0.4));
}

TEST_F(EarlyStopperTest, SmallImprovementsDoNotCount) {
  EarlyStopper stopper(
      {.monitor = "Accuracy", .dataloader_label = "train", .min_delta = 0.1, .patience = "1ba"});
  EXPECT_TRUE(epoch(stopper, 0.5));
  EXPECT_TRUE(epoch(stopper, 0.55));
  EXPECT_FALSE(epoch(stopper, 0.58));
}

TEST_F(EarlyStopperTest, GoesOnCountingAfterAResume) {
  const EarlyStopperOptions options = {.monitor = "Accuracy", .dataloader_label = "train"};
  EarlyStopper first(options);
  EXPECT_TRUE(epoch(first, 0.9));
  EXPECT_TRUE(epoch(first, 0.5));
  EarlyStopper resumed(options);
  resumed.load_state_dict(first.state_dict());
  EXPECT_FALSE(epoch(resumed, 0.6));
}

// As in Composer: patience in epochs, comp by name.
TEST_F(EarlyStopperTest, TakesAnIntegerAndTheNameOfAComparison) {
  EarlyStopper stopper(
      {.monitor = "Accuracy", .dataloader_label = "train", .comp = "less", .patience = 2});
  EXPECT_TRUE(epoch(stopper, 0.5));
  EXPECT_TRUE(epoch(stopper, 0.4));  // Better, because it is less.
  EXPECT_TRUE(epoch(stopper, 0.6));
  EXPECT_TRUE(epoch(stopper, 0.6));
  EXPECT_FALSE(epoch(stopper, 0.6));
  EXPECT_TRUE(Comparison("GT")(2, 1));
  EXPECT_TRUE(Comparison([](double a, double b) { return a == b; })(1, 1));
  EXPECT_THROW(Comparison("smaller"), UsageError);
}

TEST_F(EarlyStopperTest, UnknownMetricsAndUnitsAreRefused) {
  EarlyStopper stopper({.monitor = "F1", .dataloader_label = "train"});
  EXPECT_THROW(epoch(stopper, 0.5), UsageError);
  EXPECT_THROW(EarlyStopper({.monitor = "F1", .dataloader_label = "train", .patience = "10sp"}),
               UsageError);
  EXPECT_THROW(EarlyStopper({.monitor = "F1"}), UsageError);
}

// --- EarlyStopper in a run -----------------------------------------------------------------------

TrainerOptions watched(EarlyStopperOptions stopper) {
  TrainerOptions options = tiny_options({.metrics = true});
  options.eval_dataloader = Evaluator{.label = "val", .dataloader = testing::tiny_loader(2)};
  options.callbacks = EarlyStopper(std::move(stopper));
  return options;
}

TEST(EarlyStopperInARun, RefusesALabelThatNoDataHasBeforeItTrains) {
  for (const char* label : {"evaluation", "eval", "Train", "VAL"}) {
    Trainer trainer(watched({.monitor = "MeanOutput", .dataloader_label = label}));
    EXPECT_EQ(message_of<UsageError>([&] { trainer.fit(); }),
              "EarlyStopper: dataloader_label is \"" + std::string(label) +
                  "\", and this fit() has no such data. Its labels are \"train\" (the training "
                  "data), \"val\"");
    EXPECT_EQ(trainer.state().timestamp.batch, 0);
  }
  TrainerOptions options = watched({.monitor = "MeanOutput", .dataloader_label = "val"});
  options.eval_dataloader = {};
  Trainer trainer(std::move(options));
  EXPECT_THAT(message_of<UsageError>([&] { trainer.fit(); }), HasSubstr("set eval_dataloader"));
  EXPECT_NO_THROW(trainer.fit(
      {.eval_dataloader = Evaluator{.label = "val", .dataloader = testing::tiny_loader(2)}}));
}

TEST(EarlyStopperInARun, RefusesAMetricThatTheDataDoNotHaveBeforeItTrains) {
  for (const char* label : {"train", "val"}) {
    Trainer trainer(watched({.monitor = "Accuracy", .dataloader_label = label}));
    EXPECT_EQ(message_of<UsageError>([&] { trainer.fit(); }),
              "EarlyStopper: there is no metric \"Accuracy\" of \"" + std::string(label) +
                  "\", which has \"MeanOutput\"");
    EXPECT_EQ(trainer.state().timestamp.batch, 0);
  }
}

TEST(EarlyStopperInARun, TakesTheLabelsThatTheRunGives) {
  TrainerOptions options = watched({.monitor = "MeanOutput", .dataloader_label = "mine"});
  options.train_dataloader_label = "mine";
  Trainer trainer(std::move(options));
  EXPECT_NO_THROW(trainer.fit());
}

TEST(EarlyStopperInARun, SaysThatAnEvaluatorIsNeverRun) {
  const auto log = std::make_shared<LogRecorder>();
  for (const int interval : {0, 1}) {
    TrainerOptions options = watched({.monitor = "MeanOutput", .dataloader_label = "val"});
    options.eval_interval = interval;
    options.loggers = log;
    Trainer trainer(std::move(options));
    trainer.fit();
    EXPECT_EQ(std::ranges::count_if(log->messages,
                                    [](const std::string& line) {
                                      return line.find("whose eval_interval is 0") !=
                                             std::string::npos;
                                    }),
              1 - interval);
    log->messages.clear();
  }
}

}  // namespace
}  // namespace cairn
