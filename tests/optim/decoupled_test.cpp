// The update rules of DecoupledSGDW and DecoupledAdamW, computed by hand in double precision.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "cairn/error.h"
#include "cairn/optim/optimizers.h"

namespace cairn {
namespace {

// One parameter of one element, so that plain numbers can follow the rule.
struct Scalar {
  explicit Scalar(double value)
      : tensor(torch::full({1}, value, torch::dtype(at::kDouble).requires_grad(true))) {}
  void set_gradient(double g) { tensor.mutable_grad() = torch::full({1}, g, at::kDouble); }
  double value() const { return tensor.item<double>(); }
  at::Tensor tensor;
};

constexpr std::array kGradients = {0.5, -2.0, 0.25, 1.0};

TEST(DecoupledSGDWTest, WithoutMomentumDecaysByTheRatioOfRatesThenSteps) {
  Scalar w(3);
  const auto optimizer = DecoupledSGDW({.lr = 0.1, .weight_decay = 0.01}).create({w.tensor});
  double expected = 3;
  double lr = 0.1;
  for (const double g : kGradients) {
    w.set_gradient(g);
    set_learning_rates(*optimizer, {lr});
    optimizer->step();
    expected = expected * (1 - 0.01 * lr / 0.1) - lr * g;
    EXPECT_NEAR(w.value(), expected, 1e-15);
    lr /= 2;
  }
}

TEST(DecoupledSGDWTest, MomentumStartsWithTheGradientItselfThenDampens) {
  Scalar w(3);
  const auto optimizer =
      DecoupledSGDW({.lr = 0.1, .momentum = 0.9, .dampening = 0.3}).create({w.tensor});
  double expected = 3;
  double buffer = 0;
  for (std::size_t k = 0; k < kGradients.size(); ++k) {
    const double g = kGradients[k];
    w.set_gradient(g);
    optimizer->step();
    buffer = k == 0 ? g : 0.9 * buffer + (1 - 0.3) * g;
    expected -= 0.1 * buffer;
    EXPECT_NEAR(w.value(), expected, 1e-15) << k;
  }
}

TEST(DecoupledSGDWTest, NesterovAddsMomentumOnceMore) {
  Scalar w(3);
  const auto optimizer =
      DecoupledSGDW({.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4, .nesterov = true})
          .create({w.tensor});
  double expected = 3;
  double buffer = 0;
  for (const double g : kGradients) {
    w.set_gradient(g);
    optimizer->step();
    buffer = 0.9 * buffer + g;
    expected = expected * (1 - 1e-4) - 0.1 * (g + 0.9 * buffer);
    EXPECT_NEAR(w.value(), expected, 1e-15);
  }
}

TEST(DecoupledSGDWTest, InitialRateOfZeroDecaysInFull) {
  Scalar w(2);
  const auto optimizer = DecoupledSGDW({.lr = 0, .weight_decay = 0.5}).create({w.tensor});
  w.set_gradient(1);
  optimizer->step();
  EXPECT_DOUBLE_EQ(w.value(), 1);
}

TEST(DecoupledSGDWTest, LeavesParametersWithoutGradientAlone) {
  Scalar w(2);
  const auto optimizer = DecoupledSGDW({.lr = 1, .weight_decay = 0.5}).create({w.tensor});
  optimizer->step();
  EXPECT_DOUBLE_EQ(w.value(), 2);
}

// Compares with the paper's formulas as Composer applies them; see decoupled_adamw.cpp.
void expect_adamw(bool amsgrad) {
  Scalar w(3);
  const auto optimizer =
      DecoupledAdamW({.lr = 0.1, .betas = {0.8, 0.9}, .weight_decay = 0.01, .amsgrad = amsgrad})
          .create({w.tensor});
  double expected = 3;
  double m = 0;
  double v = 0;
  double largest = 0;
  double lr = 0.1;
  for (std::size_t k = 1; k <= kGradients.size(); ++k) {
    const double g = kGradients[k - 1];
    w.set_gradient(g);
    set_learning_rates(*optimizer, {lr});
    optimizer->step();
    expected *= 1 - 0.01 * lr / 0.1;
    m = 0.8 * m + 0.2 * g;
    v = 0.9 * v + 0.1 * g * g;
    largest = std::max(largest, v);
    const double denominator =
        std::sqrt(amsgrad ? largest : v) / std::sqrt(1 - std::pow(0.9, k)) + 1e-8;
    expected -= lr / (1 - std::pow(0.8, k)) * m / denominator;
    EXPECT_NEAR(w.value(), expected, 1e-14) << k;
    lr *= 0.7;
  }
}

TEST(DecoupledAdamWTest, FollowsTheRule) { expect_adamw(false); }
TEST(DecoupledAdamWTest, FollowsTheRuleWithAmsgrad) { expect_adamw(true); }

TEST(DecoupledAdamWTest, RunsTheClosureWithGradients) {
  Scalar w(3);
  const auto optimizer = DecoupledAdamW({.lr = 0.1}).create({w.tensor});
  const at::Tensor loss = optimizer->step([&] {
    at::Tensor square = w.tensor.square().sum();
    square.backward();
    return square;
  });
  EXPECT_DOUBLE_EQ(loss.item<double>(), 9);
  EXPECT_LT(w.value(), 3);
}

TEST(DecoupledOptimizersTest, RefuseSparseGradientsAndTorchsArchives) {
  at::Tensor weight = torch::zeros({2, 2}, torch::requires_grad());
  weight.mutable_grad() = torch::eye(2).to_sparse();
  const auto adamw = DecoupledAdamW().create({weight});
  const auto sgdw = DecoupledSGDW().create({weight});
  EXPECT_THROW(adamw->step(), UnsupportedError);
  EXPECT_THROW(sgdw->step(), UnsupportedError);
  torch::serialize::OutputArchive archive;
  EXPECT_THROW(adamw->save(archive), UnsupportedError);
  EXPECT_THROW(sgdw->save(archive), UnsupportedError);
}

}  // namespace
}  // namespace cairn
