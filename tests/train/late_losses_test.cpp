// Losses stay on the device until they have arrived, and nothing waits for them.

#include <gmock/gmock.h>

#include "cairn/callbacks/speed_monitor.h"
#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/trainer.h"

#include "testing/sim_device.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using testing::CallAt;
using ::testing::ElementsAre;
using testing::LogRecorder;
using testing::sim_device_waits;
using testing::TempFolder;
using testing::tiny_loader;
using testing::tiny_options;

// Counts the waits from batch_start to batch_end, and reads nothing.
class WaitCounter final : public Callback {
 public:
  std::string name() const override { return "WaitCounter"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  void batch_start(State& /*state*/, Logger& /*logger*/) override { before_ = sim_device_waits(); }
  void batch_end(State& /*state*/, Logger& /*logger*/) override {
    waits.push_back(sim_device_waits() - before_);
  }
  std::vector<std::uint64_t> waits;

 private:
  std::uint64_t before_ = 0;
};

// TinyModel on the simulated device, or on the CPU.
TrainerOptions options_on(const std::optional<at::Device>& device, bool metrics = false) {
  TrainerOptions options = tiny_options({.metrics = metrics, .by_name = true});
  options.max_duration = "3ba";
  options.optimizers = SGD({.lr = 0.1, .momentum = 0.9});
  DataSpec data{.dataloader = tiny_loader(10)};
  if (device) {
    testing::let_sim_device_compute();
    for (at::Tensor& parameter : options.model->module().parameters())
      testing::move_to_sim_device(parameter);
    data.microbatch_transforms = [device = *device](const Batch& batch) {
      return batch.map([&](const at::Tensor& t) { return t.to(device, /*non_blocking=*/true); });
    };
  }
  options.train_dataloader = data;
  return options;
}

struct Logged {
  std::vector<std::int64_t> steps;
  std::vector<double> losses;
  bool operator==(const Logged&) const = default;
};

Logged series_of(const LogRecorder& log, const std::string& name = "loss/train/total") {
  Logged logged;
  for (std::size_t i = 0; i < log.metrics.size(); ++i) {
    if (log.metrics[i].first != name) continue;
    logged.steps.push_back(log.steps[i]);
    logged.losses.push_back(log.metrics[i].second.as_float());
  }
  return logged;
}

std::shared_ptr<LogRecorder> add_log(TrainerOptions& options) {
  auto log = std::make_shared<LogRecorder>();
  options.loggers = {log};
  return log;
}

TEST(LateLosses, NothingWaitsForTheDeviceInABatch) {
  TrainerOptions options = options_on(testing::sim_device(), /*metrics=*/true);
  options.max_duration = "5ba";
  const auto log = add_log(options);
  const auto waits = std::make_shared<WaitCounter>();
  options.callbacks = {waits, std::make_shared<SpeedMonitor>()};
  Trainer trainer(std::move(options));
  trainer.fit();
  EXPECT_THAT(waits->waits, ElementsAre(0, 0, 0, 0, 0));
  EXPECT_THAT(series_of(*log).steps, ElementsAre(0, 1, 2, 3, 4));
}

TEST(LateLosses, MetricsOfTrainingComeLateToo) {
  std::vector<Logged> logged;
  std::vector<Value> kept;
  for (const auto& device : {std::optional<at::Device>(), std::optional(testing::sim_device())}) {
    TrainerOptions options = options_on(device, /*metrics=*/true);
    const auto log = add_log(options);
    Trainer trainer(std::move(options));
    trainer.fit();
    logged.push_back(series_of(*log, "metrics/train/MeanOutput"));
    kept.push_back(trainer.state().metric_values.at("train"));
  }
  EXPECT_THAT(logged[0].steps, ElementsAre(0, 1, 2));
  EXPECT_EQ(logged[0], logged[1]);
  EXPECT_EQ(kept[0], kept[1]);
}

TEST(LateLosses, AreLoggedWithTheValuesAndStepsOfTheCpu) {
  std::vector<Logged> logged;
  for (const auto& device : {std::optional<at::Device>(), std::optional(testing::sim_device())}) {
    TrainerOptions options = options_on(device);
    const auto log = add_log(options);
    Trainer trainer(std::move(options));
    trainer.fit();
    logged.push_back(series_of(*log));
    EXPECT_EQ(trainer.state().total_loss_dict.at("loss/train/total").as_float(),
              logged.back().losses.back());
    EXPECT_EQ(log->values("loss/train/ce").size(), 3U);
  }
  EXPECT_THAT(logged[0].steps, ElementsAre(0, 1, 2));
  EXPECT_EQ(logged[0], logged[1]);
}

TEST(LateLosses, ACallbackThatNeedsThemGetsThemInItsBatch) {
  std::vector<std::vector<double>> seen;
  for (const auto& device : {std::optional<at::Device>(), std::optional(testing::sim_device())}) {
    TrainerOptions options = options_on(device);
    std::vector<double> losses;
    options.callbacks = {std::make_shared<CallAt>(Event::kBatchEnd, [&](State& state) {
      losses.push_back(state.total_loss_dict.at("loss/train/total").as_float());
    })};
    Trainer trainer(std::move(options));
    trainer.fit();
    seen.push_back(losses);
  }
  EXPECT_EQ(seen[0].size(), 3U);
  EXPECT_EQ(seen[0], seen[1]);
}

// Notes how many losses were logged before an event, and reads none itself.
class CountAt final : public Callback {
 public:
  CountAt(Event event, std::shared_ptr<LogRecorder> log) : event_(event), log_(std::move(log)) {}
  std::string name() const override { return "CountAt"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  void run_event(Event event, State& /*state*/, Logger& /*logger*/) override {
    if (event != event_) return;
    counts.push_back(series_of(*log_).steps.size());
    EXPECT_THAT(series_of(*log_, "metrics/train/MeanOutput").steps,  // and more at an epoch's end
                ::testing::IsSupersetOf(series_of(*log_).steps));
  }
  std::vector<std::size_t> counts;

 private:
  Event event_;
  std::shared_ptr<LogRecorder> log_;
};

TEST(LateLosses, HaveArrivedBeforeWhatNeedsThem) {
  for (const Event event : {Event::kEvalBeforeAll, Event::kEpochEnd, Event::kFitEnd}) {
    TrainerOptions options = options_on(testing::sim_device(), /*metrics=*/true);
    const auto log = add_log(options);
    const auto counter = std::make_shared<CountAt>(event, log);
    options.train_subset_num_batches = 2;
    options.max_duration = "2ep";
    if (event == Event::kEvalBeforeAll) {
      DataSpec data = options.train_dataloader;
      data.dataloader = tiny_loader(2);
      options.eval_dataloader = Evaluator{.label = "eval", .dataloader = data};
      options.eval_interval = "3ba";
    }
    options.callbacks = {counter};
    Trainer trainer(std::move(options));
    trainer.fit();
    const std::vector<std::size_t> expected =
        event == Event::kEvalBeforeAll ? std::vector<std::size_t>{3, 4}
        : event == Event::kEpochEnd    ? std::vector<std::size_t>{2, 4}
                                       : std::vector<std::size_t>{4};
    EXPECT_EQ(counter->counts, expected);
  }
}

// A run that resumes does not train the batches before its checkpoint, so it cannot log them.
TEST(LateLosses, HaveArrivedBeforeASave) {
  const TempFolder folder;
  TrainerOptions options = options_on(testing::sim_device(), /*metrics=*/true);
  options.save_folder = folder.path();
  options.save_interval = "2ba";
  const auto log = add_log(options);
  const auto counter = std::make_shared<CountAt>(Event::kBatchCheckpoint, log);
  options.callbacks = {counter};
  Trainer trainer(std::move(options));
  trainer.fit();
  ASSERT_EQ(counter->counts.size(), 3U);
  EXPECT_EQ(counter->counts[1], 2U);
  EXPECT_EQ(counter->counts[2], 3U);  // the last batch is saved, too
}

TEST(LateLosses, AreLoggedIfABatchFails) {
  TrainerOptions options = options_on(testing::sim_device(), /*metrics=*/true);
  const auto log = add_log(options);
  class Failing final : public Callback {
   public:
    bool needs_losses(const State& /*state*/) const override { return false; }
    void before_forward(State& state, Logger& /*logger*/) override {
      if (state.timestamp.batch == 2) throw UsageError("enough");
    }
  };
  options.callbacks = {std::make_shared<Failing>()};
  Trainer trainer(std::move(options));
  EXPECT_THROW(trainer.fit(), UsageError);
  EXPECT_THAT(series_of(*log).steps, ElementsAre(0, 1));
  EXPECT_THAT(series_of(*log, "metrics/train/MeanOutput").steps, ElementsAre(0, 1));
}

TEST(TimeOfAFit, IsOneLineAtTheEnd) {
  TrainerOptions options = tiny_options();
  const auto log = add_log(options);
  options.max_duration = "2ba";
  Trainer trainer(std::move(options));
  trainer.fit();
  EXPECT_THAT(log->messages,
              ::testing::Contains(::testing::ContainsRegex(
                  "time: [0-9.]+ s for 2 batches: data [0-9]+ %, forward [0-9]+ %, backward "
                  "[0-9]+ %, step [0-9]+ %, evaluation 0 %, saving [0-9]+ %, other [0-9]+ %")));
}

}  // namespace
}  // namespace cairn
