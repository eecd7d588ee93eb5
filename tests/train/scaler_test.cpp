#include "cairn/train/scaler.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "cairn/error.h"
#include "cairn/optim/optimizers.h"

namespace cairn {
namespace {

struct Training {
  void set_gradient(float gradient) { weight.mutable_grad() = torch::full({2}, gradient); }
  at::Tensor weight = torch::zeros({2}, torch::requires_grad());
  std::shared_ptr<torch::optim::Optimizer> optimizer = SGD({.lr = 1}).create({weight});
};

TEST(GradScalerTest, ScalesTheLossAndUnscalesTheGradientsOnce) {
  Training training;
  GradScaler scaler({.init_scale = 4});
  scaler.scale((training.weight * 3).sum()).backward();
  EXPECT_EQ(training.weight.grad()[0].item<float>(), 12);
  scaler.unscale_(*training.optimizer);
  EXPECT_EQ(training.weight.grad()[0].item<float>(), 3);
  scaler.step(*training.optimizer);
  EXPECT_EQ(training.weight[0].item<float>(), -3);
}

TEST(GradScalerTest, SkipsTheStepAndBacksOffWhenAGradientIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    Training training;
    GradScaler scaler({.init_scale = 4});
    training.set_gradient(bad);
    scaler.step(*training.optimizer);
    scaler.update();
    EXPECT_EQ(training.weight[0].item<float>(), 0);
    EXPECT_EQ(scaler.get_scale(), 2);
    training.set_gradient(2);  // Training continues.
    scaler.step(*training.optimizer);
    EXPECT_EQ(training.weight[0].item<float>(), -1);
  }
}

// In every place: in the middle of a vector, after the last whole one, in other threads' parts.
TEST(GradScalerTest, FindsOneBadElementWhereverItIs) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf}) {
    for (const std::int64_t place : {-1, 0, 7, 70001, 100002}) {
      const at::Tensor first = torch::ones({3}, type).set_requires_grad(true);
      const at::Tensor second = torch::ones({100003}, type).set_requires_grad(true);
      first.mutable_grad() = torch::full({3}, 5.0, type);
      second.mutable_grad() = torch::rand({100003}).to(type);
      const at::Tensor expected = second.grad() * (1 / 3.0);
      if (place >= 0) second.mutable_grad()[place] = std::numeric_limits<double>::infinity();
      GradScaler scaler({.init_scale = 3});
      const auto optimizer = SGD({.lr = 1}).create({first, second});
      scaler.unscale_(*optimizer);
      EXPECT_TRUE(second.grad().slice(0, 1000, 70000).equal(expected.slice(0, 1000, 70000)));
      scaler.step(*optimizer);
      EXPECT_EQ(first.equal(torch::ones({3}, type)), place >= 0) << type << " " << place;
    }
  }
}

TEST(GradScalerTest, GrowsAfterAnIntervalWithoutInfinities) {
  Training training;
  GradScaler scaler({.init_scale = 4, .growth_interval = 2});
  for (const double expected : {4, 8, 8, 16}) {
    training.set_gradient(0);
    scaler.step(*training.optimizer);
    scaler.update();
    EXPECT_EQ(scaler.get_scale(), expected);
  }
}

TEST(GradScalerTest, NeverGrowsToInfinity) {
  GradScaler scaler({.init_scale = 0x1p127, .growth_interval = 1});
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 0x1p127);
}

TEST(GradScalerTest, HasPythonsState) {
  EXPECT_EQ(GradScaler().state_dict(), (Dict{{"scale", 65536.0},
                                             {"growth_factor", 2.0},
                                             {"backoff_factor", 0.5},
                                             {"growth_interval", 2000},
                                             {"_growth_tracker", 0}}));
  EXPECT_EQ(GradScaler({.enabled = false}).state_dict(), Dict());
}

TEST(GradScalerTest, ContinuesFromASavedState) {
  GradScaler saved({.init_scale = 4, .growth_interval = 3});
  saved.update();
  saved.update();
  GradScaler loaded;
  loaded.load_state_dict(saved.state_dict());
  EXPECT_EQ(loaded.state_dict(), saved.state_dict());
  loaded.update();
  EXPECT_EQ(loaded.get_scale(), 8);
}

TEST(GradScalerTest, DisabledOneDoesNothingAndIgnoresASavedState) {
  Training training;
  GradScaler scaler({.enabled = false});
  const at::Tensor loss = torch::ones({});
  EXPECT_TRUE(scaler.scale(loss).is_same(loss));
  training.set_gradient(std::numeric_limits<float>::infinity());
  scaler.step(*training.optimizer);
  scaler.update();
  EXPECT_FALSE(training.weight.isfinite().any().item<bool>());
  scaler.load_state_dict(GradScaler().state_dict());
  EXPECT_EQ(scaler.state_dict(), Dict());
}

// Composer, in contrast, refuses a checkpoint of a machine without a GPU.
TEST(GradScalerTest, EmptyStateOfAMachineWithoutGpuLeavesItAsItIs) {
  GradScaler scaler({.init_scale = 4});
  scaler.load_state_dict(Dict());
  EXPECT_EQ(scaler.get_scale(), 4);
}

TEST(GradScalerTest, RefusesAStateThatCannotBeAndKeepsItsOwn) {
  GradScaler scaler;
  const Value before = scaler.state_dict();
  const auto with = [&](const char* key, const Value& value) {
    Dict changed = before.as_dict();
    changed.set(key, value);
    return changed;
  };
  EXPECT_THROW(scaler.load_state_dict(1), MismatchError);
  EXPECT_THROW(scaler.load_state_dict(Dict{{"scale", 2.0}}), MismatchError);
  EXPECT_THROW(scaler.load_state_dict(with("scale", "big")), MismatchError);
  EXPECT_THROW(scaler.load_state_dict(with("scale", -1.0)), MismatchError);
  EXPECT_THROW(scaler.load_state_dict(with("backoff_factor", 1.5)), MismatchError);
  EXPECT_THROW(scaler.load_state_dict(with("_growth_tracker", -1)), MismatchError);
  EXPECT_EQ(scaler.state_dict(), before);
}

TEST(GradScalerTest, RefusesOptionsThatCannotBe) {
  EXPECT_THROW(GradScaler({.init_scale = 0}), UsageError);
  EXPECT_THROW(GradScaler({.growth_factor = 1}), UsageError);
  EXPECT_THROW(GradScaler({.backoff_factor = 1}), UsageError);
  EXPECT_THROW(GradScaler({.growth_interval = 0}), UsageError);
}

}  // namespace
}  // namespace cairn
