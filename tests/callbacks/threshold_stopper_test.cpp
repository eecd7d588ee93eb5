#include "cairn/callbacks/threshold_stopper.h"

#include <gmock/gmock.h>

#include "cairn/error.h"
#include "cairn/train/trainer.h"

#include "testing/message_of.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempFolder;
using testing::tiny_options;

const ThresholdStopperOptions kAboveHalf = {
    .monitor = "Accuracy", .dataloader_label = "train", .threshold = 0.5};

struct ThresholdStopperTest : ::testing::Test {
  ThresholdStopperTest() : trainer(tiny_options()) { trainer.state().max_duration = Time("100ep"); }
  void see(double value) {
    State& state = trainer.state();
    state.dataloader_label = "train";
    state.timestamp = state.timestamp.to_next_batch(2, 0, {});
    state.metric_values["train"] = Dict{{"Accuracy", value}, {"CrossEntropy", value}};
  }
  // stop_training() sets a duration in batches.
  bool is_stopped() { return trainer.state().max_duration->unit() == TimeUnit::kBatch; }
  Trainer trainer;
};

TEST_F(ThresholdStopperTest, StopsWhenTheMetricIsPastTheThreshold) {
  ThresholdStopper stopper(kAboveHalf);
  for (const double value : {0.4, 0.5}) {
    see(value);
    stopper.epoch_end(trainer.state(), trainer.logger());
    EXPECT_FALSE(is_stopped());
  }
  see(0.6);
  stopper.epoch_end(trainer.state(), trainer.logger());
  EXPECT_TRUE(is_stopped());
}

TEST_F(ThresholdStopperTest, LessIsPastTheThresholdOfALoss) {
  ThresholdStopper stopper(
      {.monitor = "CrossEntropy", .dataloader_label = "train", .threshold = 0.5});
  see(0.6);
  stopper.epoch_end(trainer.state(), trainer.logger());
  EXPECT_FALSE(is_stopped());
  see(0.4);
  stopper.epoch_end(trainer.state(), trainer.logger());
  EXPECT_TRUE(is_stopped());
}

TEST_F(ThresholdStopperTest, ComparesABatchOnlyWhenAsked) {
  ThresholdStopper stopper(kAboveHalf);
  see(0.9);
  stopper.batch_end(trainer.state(), trainer.logger());
  EXPECT_FALSE(is_stopped());
  ThresholdStopperOptions options = kAboveHalf;
  options.comp = [](double value, double threshold) { return value == threshold + 0.4; };
  options.stop_on_batch = true;
  ThresholdStopper on_batch(options);
  on_batch.batch_end(trainer.state(), trainer.logger());
  EXPECT_TRUE(is_stopped());
}

TEST_F(ThresholdStopperTest, OtherDataAreNotCompared) {
  ThresholdStopper stopper(
      {.monitor = "Accuracy", .dataloader_label = "val", .threshold = 0.5, .stop_on_batch = true});
  see(0.9);
  stopper.batch_end(trainer.state(), trainer.logger());
  stopper.epoch_end(trainer.state(), trainer.logger());
  EXPECT_FALSE(is_stopped());
}

TEST_F(ThresholdStopperTest, MissingNamesAndThresholdsAreRefused) {
  EXPECT_THROW(ThresholdStopper({.monitor = "Accuracy", .threshold = 1}), UsageError);
  EXPECT_THROW(ThresholdStopper({.monitor = "Accuracy", .dataloader_label = "train"}), UsageError);
  EXPECT_THROW(ThresholdStopper({}), UsageError);
  ThresholdStopper stopper(kAboveHalf);
  EXPECT_THROW(stopper.load_state_dict(Dict{{"stopped_fit", "one"}}), MismatchError);
}

// MeanOutput has some value after every batch, and it is more than -1000.
TrainerOptions stopped_at_once(const std::string& folder, double threshold) {
  TrainerOptions options = tiny_options({.metrics = true});
  options.max_duration = "2ep";
  options.callbacks = ThresholdStopper({.monitor = "MeanOutput",
                                        .dataloader_label = "train",
                                        .threshold = threshold,
                                        .stop_on_batch = true});
  options.run_name = "stopped";
  options.save_folder = folder;
  options.save_interval = "1ba";
  options.autoresume = true;
  return options;
}

TEST(ThresholdStopperInARun, ARestartedRunEndsAgain) {
  const TempFolder folder;
  for (int start = 0; start < 2; ++start) {
    Trainer trainer(stopped_at_once(folder.path(), -1000));
    trainer.fit();
    EXPECT_EQ(trainer.state().timestamp.batch, 1) << "start " << start;
  }
  Trainer further(stopped_at_once(folder.path(), 1000));
  further.fit();
  EXPECT_EQ(further.state().timestamp.batch, 10);
}

TEST(ThresholdStopperInARun, RefusesNamesThatMatchNothing) {
  TrainerOptions options = tiny_options();
  options.callbacks = ThresholdStopper(kAboveHalf);
  Trainer trainer(std::move(options));
  EXPECT_EQ(message_of<UsageError>([&] { trainer.fit(); }),
            "ThresholdStopper: there is no metric \"Accuracy\" of \"train\", which has none");
}

}  // namespace
}  // namespace cairn
