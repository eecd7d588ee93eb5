// RuntimeEstimator, driven by hand, since its input is the clock.

#include "cairn/callbacks/runtime_estimator.h"

#include <gmock/gmock.h>

#include "cairn/error.h"
#include "cairn/train/trainer.h"

#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::LogRecorder;
using testing::tiny_options;

TimeDelta in_seconds(int seconds) { return {.days = 0, .seconds = seconds, .microseconds = 0}; }

struct RuntimeEstimatorTest : ::testing::Test {
  RuntimeEstimatorTest() : trainer(options()) { trainer.state().max_duration = Time("10ba"); }
  TrainerOptions options() {
    TrainerOptions made = tiny_options();
    made.loggers = {log};
    return made;
  }
  void batch(RuntimeEstimator& estimator, int seconds) {
    State& state = trainer.state();
    estimator.batch_start(state, trainer.logger());
    state.timestamp = state.timestamp.to_next_batch(2, 0, in_seconds(seconds));
    estimator.batch_end(state, trainer.logger());
  }
  void evaluate(RuntimeEstimator& estimator, const std::string& label, int seconds) {
    State& state = trainer.state();
    const std::string before = std::exchange(state.dataloader_label, label);
    state.eval_timestamp.total_wct = in_seconds(seconds);
    estimator.eval_end(state, trainer.logger());
    state.dataloader_label = before;
  }
  std::vector<double> estimates() const { return log->values("time/remaining_estimate"); }

  std::shared_ptr<LogRecorder> log = std::make_shared<LogRecorder>();
  Trainer trainer;
  RuntimeEstimator in_units{{.time_unit = "seconds"}};
};

TEST_F(RuntimeEstimatorTest, TheFirstBatchIsNotCounted) {
  batch(in_units, 1000);
  EXPECT_THAT(estimates(), IsEmpty());
  batch(in_units, 3);  // Eight more batches of 3 s.
  batch(in_units, 5);  // Seven more batches of 4 s.
  EXPECT_THAT(estimates(), ElementsAre(DoubleNear(24, 1e-9), DoubleNear(28, 1e-9)));
}

TEST_F(RuntimeEstimatorTest, EpochsAreCountedInBatches) {
  trainer.state().max_duration = Time("2ep");
  trainer.state().dataloader_len = 5;
  RuntimeEstimator estimator({.skip_batches = 0, .time_unit = "minutes"});
  for (int i = 0; i < 5; ++i)
    batch(estimator, 60);
  trainer.state().timestamp = trainer.state().timestamp.to_next_epoch();
  batch(estimator, 60);
  EXPECT_THAT(estimates(),
              ElementsAre(DoubleNear(9, 1e-9), DoubleNear(8, 1e-9), DoubleNear(7, 1e-9),
                          DoubleNear(6, 1e-9), DoubleNear(5, 1e-9), DoubleNear(4, 1e-9)));
}

// The first evaluation is slower, and counts until there is another one.
TEST_F(RuntimeEstimatorTest, EvaluationsToComeAreAdded) {
  RuntimeEstimator estimator({.skip_batches = 0, .time_unit = "seconds"});
  evaluate(estimator, "val", 1000);  // Before training.
  batch(estimator, 1);
  batch(estimator, 1);
  evaluate(estimator, "val", 100);
  batch(estimator, 1);  // 7 s, and four more evaluations of 100 s.
  batch(estimator, 1);
  evaluate(estimator, "val", 10);
  batch(estimator, 1);  // 5 s, and three more evaluations of 10 s.
  EXPECT_THAT(estimates(),
              ElementsAre(DoubleNear(9, 1e-9), DoubleNear(8, 1e-9), DoubleNear(407, 1e-6),
                          DoubleNear(406, 1e-6), DoubleNear(35, 1e-6)));
}

TEST_F(RuntimeEstimatorTest, AResumedRunGoesOnWithTheEstimate) {
  RuntimeEstimator before({.skip_batches = 0, .time_unit = "seconds"});
  for (int i = 0; i < 2; ++i)
    batch(before, 2);
  evaluate(before, "val", 30);
  RuntimeEstimator resumed({.skip_batches = 5, .time_unit = "seconds"});
  resumed.load_state_dict(before.state_dict());
  EXPECT_EQ(resumed.state_dict(), before.state_dict());
  batch(resumed, 2);
  EXPECT_THAT(estimates().at(2), DoubleNear(7 * 2 + 4 * 30, 1e-6));

  resumed.load_state_dict(Dict());  // Composer's state.
  EXPECT_EQ(resumed.state_dict().at("start"), Value(None{}));
  EXPECT_THROW(resumed.load_state_dict(Dict{{"start", 3}}), MismatchError);
  Dict without_evaluations = {{"start", Timestamp().state_dict()}};
  EXPECT_THROW(resumed.load_state_dict(without_evaluations), MismatchError);
  without_evaluations.set("evaluations", Dict{{"val", Dict{{"count", 1}}}});
  EXPECT_THROW(resumed.load_state_dict(without_evaluations), MismatchError);
}

TEST_F(RuntimeEstimatorTest, ATimeThatIsSetBackBeginsAnew) {
  RuntimeEstimator estimator({.skip_batches = 0, .time_unit = "seconds"});
  for (int i = 0; i < 3; ++i)
    batch(estimator, 1);
  RuntimeEstimator resumed({.skip_batches = 0, .time_unit = "seconds"});
  batch(resumed, 1);  // Starts at batch 3.
  trainer.state().timestamp = Timestamp();
  batch(resumed, 7);
  EXPECT_THAT(estimates().back(), DoubleNear(63, 1e-9));
}

TEST(RuntimeEstimatorOptionsTest, TheUnitIsLoggedAndImpossibleOnesAreRefused) {
  auto log = std::make_shared<LogRecorder>();
  TrainerOptions made = tiny_options();
  made.max_duration = "4ba";
  made.callbacks = RuntimeEstimator();
  made.loggers = {log};
  Trainer trainer(std::move(made));
  trainer.fit();
  EXPECT_EQ(log->hyperparameters.at("time/remaining_estimate_unit"), Value("hours"));
  EXPECT_EQ(log->values("time/remaining_estimate").size(), 3U);
  EXPECT_EQ(log->values("time/remaining_estimate").back(), 0);
  EXPECT_THROW(RuntimeEstimator({.skip_batches = -1}), UsageError);
  EXPECT_THROW(RuntimeEstimator({.time_unit = "fortnights"}), UsageError);
}

}  // namespace
}  // namespace cairn
