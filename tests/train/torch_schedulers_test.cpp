#include "cairn/schedulers/torch_schedulers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <numbers>

#include "cairn/error.h"
#include "cairn/optim/optimizers.h"

#include "testing/keys.h"

namespace cairn {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using testing::keys;
using ::testing::Pointwise;

std::shared_ptr<torch::optim::Optimizer> optimizer_with(double lr) {
  return SGD({.lr = lr}).create({torch::zeros(2, torch::requires_grad())});
}

// The learning rates before the first step, and after each of `steps` steps.
std::vector<double> rates(const TorchScheduler& scheduler, int steps, double scale = 1) {
  const auto optimizer = optimizer_with(1);
  const auto running = scheduler.attach(*optimizer, scale);
  std::vector<double> found = learning_rates(*optimizer);
  for (int i = 0; i < steps; ++i) {
    running->step();
    found.push_back(learning_rates(*optimizer)[0]);
  }
  return found;
}

TEST(StepLRTest, MultipliesEveryStepSizeSteps) {
  EXPECT_THAT(rates(StepLR({.step_size = 2, .gamma = 0.5}), 5),
              ElementsAre(1, 1, 0.5, 0.5, 0.25, 0.25));
  EXPECT_THAT(rates(StepLR({.step_size = 2, .gamma = 0.5}), 3, 0.5), ElementsAre(1, .5, .25, .125));
}

TEST(MultiStepLRTest, MultipliesAtEachMilestoneAsOftenAsItIsListed) {
  EXPECT_THAT(rates(MultiStepLR({.milestones = {1, 3, 3}, .gamma = 0.5}), 4),
              ElementsAre(1, 0.5, 0.5, 0.125, 0.125));
  EXPECT_THAT(rates(MultiStepLR({.milestones = {2, 6}, .gamma = 0.5}), 4, 0.5),
              ElementsAre(1, 0.5, 0.5, 0.25, 0.25));
}

TEST(ExponentialLRTest, MultipliesEveryStep) {
  EXPECT_THAT(rates(ExponentialLR({.gamma = 0.5}), 2), ElementsAre(1, 0.5, 0.25));
  EXPECT_THAT(rates(ExponentialLR({.gamma = 0.5}), 2, 0.5), ElementsAre(1, 0.25, 0.0625));
}

TEST(CosineAnnealingLRTest, FollowsTheCosineDownAndUpAgain) {
  std::vector<double> expected;
  for (int step = 0; step <= 9; ++step) {
    expected.push_back(0.1 + 0.9 * (1 + std::cos(std::numbers::pi * step / 4)) / 2);
  }
  EXPECT_THAT(rates(CosineAnnealingLR({.T_max = 4, .eta_min = 0.1}), 9),
              Pointwise(DoubleNear(1e-12), expected));
  EXPECT_THAT(rates(CosineAnnealingLR({.T_max = 8, .eta_min = 0.1}), 9, 0.5),
              Pointwise(DoubleNear(1e-12), expected));
}

TEST(TorchSchedulersTest, StateHasPyTorchsKeysInItsOrder) {
  const std::vector<std::string> common = {
      "base_lrs", "last_epoch", "verbose", "_step_count", "_get_lr_called_within_step", "_last_lr"};
  const auto expect_keys = [&](const TorchScheduler& scheduler, std::vector<std::string> own) {
    const auto optimizer = optimizer_with(1);
    own.insert(own.end(), common.begin(), common.end());
    EXPECT_EQ(keys(scheduler.attach(*optimizer, 1)->state_dict()), own);
  };
  expect_keys(StepLR({.step_size = 2}), {"step_size", "gamma"});
  expect_keys(MultiStepLR({.milestones = {2}}), {"milestones", "gamma"});
  expect_keys(ExponentialLR({.gamma = 0.5}), {"gamma"});
  expect_keys(CosineAnnealingLR({.T_max = 3}), {"T_max", "eta_min"});
}

// Expects that a scheduler that takes over the state and the optimizer of another scheduler
// continues as the other scheduler would.
template <class Scheduler>
void expect_continues(const Scheduler& scheduler, const Scheduler& other) {
  const std::vector<double> straight = rates(scheduler, 6);
  const auto first = optimizer_with(1);
  const auto running = scheduler.attach(*first, 1);
  for (int i = 0; i < 3; ++i) {
    running->step();
  }
  const auto second = optimizer_with(7);
  const auto resumed = other.attach(*second, 1);
  resumed->load_state_dict(running->state_dict());
  set_learning_rates(*second, learning_rates(*first));
  for (int i = 4; i <= 6; ++i) {
    resumed->step();
    EXPECT_EQ(learning_rates(*second)[0], straight[i]) << resumed->name() << " step " << i;
  }
}

TEST(TorchSchedulersTest, ContinueFromASavedStateWithItsOptions) {
  expect_continues(StepLR({.step_size = 2, .gamma = 0.5}), StepLR({.step_size = 1}));
  expect_continues(MultiStepLR({.milestones = {2, 5}}), MultiStepLR({.milestones = {9}}));
  expect_continues(ExponentialLR({.gamma = 0.5}), ExponentialLR({.gamma = 0.7}));
  expect_continues(CosineAnnealingLR({.T_max = 5, .eta_min = 0.1}),
                   CosineAnnealingLR({.T_max = 2}));
}

TEST(MultiStepLRTest, MilestonesAreACounterAndMayHaveTextsForKeys) {
  const auto optimizer = optimizer_with(1);
  const auto running = MultiStepLR({.milestones = {2, 7, 7}, .gamma = 0.1}).attach(*optimizer, 1);
  const Value state = running->state_dict();
  EXPECT_EQ(state.at("milestones").as_dict().type(), DictType::kCounter);
  Value through_dcp = state;  // In torch.distributed.checkpoint, keys are strings.
  through_dcp.mutable_dict()["milestones"] = Dict{{"2", 1}, {"7", 2}};
  const auto again = MultiStepLR({.milestones = {9}}).attach(*optimizer, 1);
  again->load_state_dict(through_dcp);
  EXPECT_EQ(again->state_dict(), state);
  through_dcp.mutable_dict()["milestones"] = Dict{{"two", 1}};
  EXPECT_THROW(again->load_state_dict(through_dcp), MismatchError);
}

TEST(TorchSchedulersTest, RefuseAStateThatDoesNotFit) {
  const auto optimizer = optimizer_with(1);
  const auto running = StepLR({.step_size = 2}).attach(*optimizer, 1);
  Dict state = running->state_dict().as_dict();
  state.set("step_size", 0);
  EXPECT_THROW(running->load_state_dict(state), MismatchError);
  state.set("step_size", "2");
  EXPECT_THROW(running->load_state_dict(state), MismatchError);
  EXPECT_EQ(running->state_dict().at("step_size").as_int(), 2);
}

TEST(TorchSchedulersTest, RefuseOptionsThatCannotBe) {
  EXPECT_THROW(StepLR({.step_size = 0}), UsageError);
  EXPECT_THROW(ExponentialLR(ExponentialLROptions{}), UsageError);
  EXPECT_THROW(CosineAnnealingLR(CosineAnnealingLROptions{}), UsageError);
  const auto optimizer = optimizer_with(1);
  EXPECT_THROW(StepLR({.step_size = 1}).attach(*optimizer, 0.5), UsageError);
}

}  // namespace
}  // namespace cairn
