#include "cairn/callbacks/activation_monitor.h"

#include <gmock/gmock.h>

#include <array>

#include "cairn/error.h"
#include "cairn/train/trainer.h"

#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::LogRecorder;
using ::testing::Not;
using ::testing::SizeIs;
using testing::tiny_options;

std::shared_ptr<LogRecorder> watched_run(ActivationMonitorOptions options,
                                         std::optional<std::int64_t> microbatch = std::nullopt) {
  auto log = std::make_shared<LogRecorder>();
  TrainerOptions made = tiny_options();
  made.max_duration = "2ep";  // 10 batches.
  made.device_train_microbatch_size = microbatch;
  made.callbacks = ActivationMonitor(std::move(options));
  made.loggers = {log};
  Trainer trainer(std::move(made));
  trainer.fit();
  return log;
}

// The figures of the first batch, computed from the initial weights.
TEST(ActivationMonitorTest, LogsTheFiguresOfEveryLayer) {
  const auto log = watched_run({.interval = "10ba"});
  testing::TinyModel model;
  const std::array<std::int64_t, 2> first = {0, 1};
  const Batch batch = testing::tiny_dataset(10)->get_batch(first);
  const at::NoGradGuard no_grad;
  const auto weights = model.module().named_parameters();
  const at::Tensor input = batch[0].to(at::kDouble);
  const at::Tensor output = at::addmm(weights["first.bias"], input, weights["first.weight"].t());
  const auto expect = [&log](const std::string& key, const at::Tensor& expected) {
    const std::vector<double> found = log->values("activations/" + key);
    ASSERT_THAT(found, SizeIs(1)) << key;
    EXPECT_NEAR(found.front(), expected.item<double>(), 1e-4) << key;
  };
  for (const auto& [name, values] :
       {std::pair("first_input.0", input), std::pair("first_output.0", output)}) {
    expect(std::string("average/") + name, values.mean());
    expect(std::string("l2_norm/") + name, values.norm(2, -1).mean());
    expect(std::string("max/") + name, values.amax(-1).mean());
    const at::Tensor diffs = values - values.mean(-1, true);
    expect(std::string("kurtosis/") + name,
           (diffs.pow(4).mean(-1) / diffs.pow(2).mean(-1).pow(2)).mean());
  }
  EXPECT_THAT(log->values("activations/average/second_output.0"), SizeIs(1));
  for (const auto& [key, value] : log->metrics)
    EXPECT_THAT(key, Not(HasSubstr("_input.1")));  // The transposed weight is the layer's own.
}

TEST(ActivationMonitorTest, LogsAtTheIntervalOnceForABatch) {
  EXPECT_THAT(watched_run({.interval = "3ba"}, 1)->values("activations/max/second_output.0"),
              SizeIs(4));
  EXPECT_THAT(watched_run({.interval = 1})->values("activations/max/second_output.0"), SizeIs(2));
}

TEST(ActivationMonitorTest, LayersMayBeLeftOut) {
  const auto log = watched_run({.ignore_module_types = {"fir"}});
  EXPECT_THAT(log->values("activations/average/first_output.0"), IsEmpty());
  EXPECT_THAT(log->values("activations/average/second_output.0"), SizeIs(1));
}

TEST(ActivationMonitorTest, RefusesOtherUnits) {
  EXPECT_THROW(ActivationMonitor({.interval = "10sp"}), UsageError);
  EXPECT_THROW(ActivationMonitor({.interval = "0ba"}), UsageError);
}

// An observer that is not removed sees the operators of later work.
TEST(ActivationMonitorTest, ABrokenForwardLeavesNothingBehind) {
  const auto log = std::make_shared<LogRecorder>();
  TrainerOptions made = tiny_options();
  made.callbacks = {ActivationMonitor({.interval = "1ba"}),
                    testing::CallAt(Event::kBatchStart, [](State& state) {
                      if (state.timestamp.batch == 1) state.batch[0] = at::zeros({2, 9});
                    })};
  made.loggers = {log};
  {
    Trainer trainer(std::move(made));
    EXPECT_THROW(trainer.fit(), TrainingError);
  }
  EXPECT_THAT(log->values("activations/average/first_output.0"), SizeIs(1));
}

}  // namespace
}  // namespace cairn
