#include "cairn/callbacks/optimizer_monitor.h"

#include <gmock/gmock.h>

#include "cairn/algorithms/gradient_clipping.h"
#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/optimizer.h"
#include "cairn/train/parameters.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::LogRecorder;
using ::testing::SizeIs;
using testing::tiny_options;

const std::vector<std::string>& names() {
  static const std::vector<std::string> all = {"first.weight", "first.bias", "second.weight",
                                               "second.bias"};
  return all;
}

double norm_of(const at::Tensor& tensor) { return tensor.to(at::kDouble).norm(2).item<double>(); }

// Notes the norms that the monitor should log, from the live tensors.
class NormsByHand final : public Callback {
 public:
  std::string name() const override { return "NormsByHand"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  void after_train_batch(State& state, Logger& /*logger*/) override {
    before_.clear();
    for (const at::Tensor& parameter : parameters(state.model->module()))
      before_.push_back(parameter.detach().clone());
  }
  void batch_end(State& state, Logger& /*logger*/) override {
    const at::NoGradGuard no_grad;
    const Value optimizer = optimizer_state_dict(*state.optimizer, state.model->module());
    std::size_t i = 0;
    for (const auto& [name, parameter] : named_parameters(state.model->module())) {
      expected["grad/" + name].push_back(norm_of(parameter.grad()));
      expected["param/" + name].push_back(norm_of(parameter));
      expected["update/" + name].push_back(norm_of(parameter - before_.at(i++)));
      const Value* kept = optimizer.at("state").find(name);
      const Value* moment = kept == nullptr ? nullptr : kept->find("exp_avg");
      if (moment == nullptr) continue;
      expected["moment/" + name].push_back(norm_of(tensor_of(moment->as_tensor())));
    }
  }
  std::map<std::string, std::vector<double>> expected;

 private:
  std::vector<at::Tensor> before_;
};

struct MonitoredRun {
  std::shared_ptr<LogRecorder> log = std::make_shared<LogRecorder>();
  std::shared_ptr<NormsByHand> by_hand = std::make_shared<NormsByHand>();

  MonitoredRun(OptimizerHandle optimizer, const OptimizerMonitorOptions& options) {
    TrainerOptions made = tiny_options();
    made.max_duration = "4ba";
    made.optimizers = std::move(optimizer);
    made.callbacks = {by_hand, OptimizerMonitor(options)};
    made.loggers = {log};
    Trainer trainer(std::move(made));
    trainer.fit();
  }
  std::vector<double> norms(const std::string& key) const { return log->values("l2_norm/" + key); }
};

TEST(OptimizerMonitorTest, LogsTheNormsOfEveryParameter) {
  const MonitoredRun run(DecoupledAdamW({.lr = 0.1, .weight_decay = 0.01}),
                         {.batch_log_interval = 1});
  for (const std::string& name : names()) {
    for (const std::string what : {"grad/", "param/", "update/", "moment/"}) {
      const std::vector<double> expected = run.by_hand->expected.at(what + name);
      ASSERT_THAT(run.norms(what + name), SizeIs(4)) << what << name;
      for (std::size_t i = 0; i < 4; ++i)
        EXPECT_NEAR(run.norms(what + name)[i], expected[i], 1e-12) << what << name;
    }
  }
  double squares = 0;
  for (const std::string& name : names())
    squares += std::pow(run.by_hand->expected.at("grad/" + name)[2], 2);
  EXPECT_NEAR(run.norms("grad/global").at(2), std::sqrt(squares), 1e-12);
}

TEST(OptimizerMonitorTest, LogsAtTheInterval) {
  const MonitoredRun run(Adam({.lr = 0.1}), {.batch_log_interval = 3});
  EXPECT_THAT(run.norms("grad/global"), SizeIs(1));
  EXPECT_NEAR(run.norms("update/first.weight").at(0),
              run.by_hand->expected.at("update/first.weight").at(2), 1e-12);
}

TEST(OptimizerMonitorTest, LogsGradientsAloneWhenAsked) {
  const MonitoredRun run(Adam({.lr = 0.1}),
                         {.log_optimizer_metrics = false, .batch_log_interval = 2});
  EXPECT_THAT(run.norms("grad/global"), SizeIs(2));
  for (const char* what : {"param/", "update/", "moment/"})
    EXPECT_THAT(run.norms(what + names().front()), IsEmpty());
}

TEST(OptimizerMonitorTest, AnOptimizerWithoutMomentsHasNone) {
  const MonitoredRun plain(SGD({.lr = 0.5}), {.batch_log_interval = 1});
  EXPECT_THAT(plain.norms("moment/first.weight"), IsEmpty());
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(plain.norms("update/first.weight")[i], 0.5 * plain.norms("grad/first.weight")[i],
                1e-12);
  }
  const MonitoredRun momentum(SGD({.lr = 0.5, .momentum = 0.9}), {.batch_log_interval = 1});
  EXPECT_THAT(momentum.norms("moment/first.weight"), SizeIs(4));
}

// LBFGS evaluates a batch several times.
TEST(OptimizerMonitorTest, TheUpdateIsThatOfTheWholeStep) {
  at::Tensor before;
  at::Tensor after;
  auto log = std::make_shared<LogRecorder>();
  TrainerOptions made = tiny_options();
  made.max_duration = "1ba";
  made.optimizers = LBFGS({.lr = 0.1, .max_iter = 4});
  made.callbacks = OptimizerMonitor({.batch_log_interval = 1});
  made.loggers = {log};
  Trainer trainer(std::move(made));
  const auto weight = [&] { return parameters(trainer.state().model->module()).front().detach(); };
  before = weight().clone();
  trainer.fit();
  EXPECT_NEAR(log->values("l2_norm/update/first.weight").at(0), norm_of(weight() - before), 1e-12);
}

TEST(OptimizerMonitorTest, SeesGradientsAfterClippingAndPassesOverFrozenParameters) {
  auto log = std::make_shared<LogRecorder>();
  TrainerOptions made = tiny_options();
  made.max_duration = "2ba";
  parameters(made.model->module()).front().set_requires_grad(false);
  made.algorithms = GradientClipping({.clipping_type = "norm", .clipping_threshold = 1e-3});
  made.callbacks = OptimizerMonitor({.batch_log_interval = 1});
  made.loggers = {log};
  Trainer trainer(std::move(made));
  trainer.fit();
  EXPECT_THAT(log->values("l2_norm/grad/first.weight"), IsEmpty());
  EXPECT_THAT(log->values("l2_norm/grad/global"),
              ElementsAre(DoubleNear(1e-3, 1e-7), DoubleNear(1e-3, 1e-7)));
  EXPECT_THROW(OptimizerMonitor({.batch_log_interval = 0}), UsageError);
}

}  // namespace
}  // namespace cairn
