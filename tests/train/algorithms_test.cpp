#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "cairn/algorithms/gradient_clipping.h"
#include "cairn/algorithms/label_smoothing.h"
#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"

namespace cairn {
namespace {

// A state with a model of one 2x2 weight and a bias, and given gradients.
struct Clipped {
  Clipped() {
    const torch::NoGradGuard no_grad;
    linear->weight.copy_(torch::tensor({{3.0, 4.0}, {0.0, 1.0}}));
    linear->bias.copy_(torch::tensor({0.0, 2.0}));
    linear->weight.mutable_grad() = torch::tensor({{6.0, 8.0}, {0.0, 0.0}});
    linear->bias.mutable_grad() = torch::tensor({0.0, -24.0});
    state.model = classifier(linear);
  }
  void clip(const std::string& type, double threshold) {
    GradientClipping algorithm({.clipping_type = type, .clipping_threshold = threshold});
    ASSERT_TRUE(algorithm.match(Event::kAfterTrainBatch, state));
    algorithm.apply(Event::kAfterTrainBatch, state, logger);
  }
  at::Tensor weight_grad() const { return linear->weight.grad(); }
  at::Tensor bias_grad() const { return linear->bias.grad(); }

  torch::nn::Linear linear{2, 2};
  State state;
  Logger logger{state};
};

TEST(GradientClippingTest, NormScalesAllGradientsTogether) {
  Clipped clipped;  // The norm is 26.
  clipped.clip("norm", 13);
  EXPECT_TRUE(torch::allclose(clipped.weight_grad(), torch::tensor({{3.0, 4.0}, {0.0, 0.0}})));
  EXPECT_TRUE(torch::allclose(clipped.bias_grad(), torch::tensor({0.0, -12.0})));
  clipped.clip("norm", 100);
  EXPECT_TRUE(torch::allclose(clipped.bias_grad(), torch::tensor({0.0, -12.0})));
}

// Many gradients, small and large, have the bits of one operator for each.
TEST(GradientClippingTest, HasTheBitsOfTheOperators) {
  const torch::nn::Sequential net(torch::nn::Linear(200, 300), torch::nn::Linear(300, 7),
                                  torch::nn::Linear(7, 3));
  State state;
  state.model = classifier(net);
  Logger logger{state};
  for (const std::string type : {"norm", "value"}) {
    std::vector<at::Tensor> before;
    at::Tensor squares = torch::zeros({}, at::kDouble);
    for (const at::Tensor& parameter : net->parameters()) {
      at::Tensor& gradient = parameter.mutable_grad() = torch::randn_like(parameter).detach();
      gradient.view(-1)[0] = 1;  // So that it becomes the factor.
      before.push_back(gradient.clone());
      squares += gradient.to(at::kDouble).square().sum();
    }
    GradientClipping({.clipping_type = type, .clipping_threshold = 0.75})
        .apply(Event::kAfterTrainBatch, state, logger);
    const at::Tensor factor = net->parameters().back().grad()[0].clone();
    EXPECT_NEAR(factor.item<double>(), type == "norm" ? 0.75 / squares.sqrt().item<double>() : 0.75,
                1e-6);
    for (std::size_t i = 0; i < before.size(); ++i) {
      const at::Tensor expected =
          type == "norm" ? before[i].mul(factor) : before[i].clamp(-0.75, 0.75);
      EXPECT_TRUE(net->parameters()[i].grad().equal(expected)) << type << " " << i;
    }
  }
}

TEST(GradientClippingTest, ValueClampsEachElement) {
  Clipped clipped;
  clipped.clip("value", 7);
  EXPECT_TRUE(clipped.weight_grad().equal(torch::tensor({{6.0F, 7.0F}, {0.0F, 0.0F}})));
  EXPECT_TRUE(clipped.bias_grad().equal(torch::tensor({0.0F, -7.0F})));
}

TEST(GradientClippingTest, AdaptiveComparesEachUnitWithItsWeights) {
  Clipped clipped;
  clipped.clip("adaptive", 0.5);  // Row norms 5 and 1, bias norm 2.
  EXPECT_TRUE(torch::allclose(clipped.weight_grad(), torch::tensor({{1.5, 2.0}, {0.0, 0.0}})));
  EXPECT_TRUE(torch::allclose(clipped.bias_grad(), torch::tensor({0.0, -1.0})));
}

TEST(GradientClippingTest, AdaptiveLeavesZeroGradientsOfZeroWeightsAlone) {
  Clipped clipped;
  const torch::NoGradGuard no_grad;
  clipped.linear->bias.zero_();
  clipped.linear->bias.mutable_grad().zero_();
  clipped.clip("adaptive", 0.5);
  EXPECT_TRUE(clipped.bias_grad().equal(torch::zeros({2})));
}

TEST(GradientClippingTest, RefusesOptionsThatCannotBe) {
  EXPECT_THROW(GradientClipping({.clipping_type = "L2", .clipping_threshold = 1}), UsageError);
  EXPECT_THROW(GradientClipping({.clipping_type = "norm", .clipping_threshold = 0}), UsageError);
}

TEST(GradientClippingTest, StateIsItsConstructorCall) {
  const GradientClipping algorithm({.clipping_type = "norm", .clipping_threshold = 1});
  EXPECT_EQ(algorithm.state_dict(),
            (Dict{{"repr", "GradientClipping(clipping_type='norm',clipping_threshold=1.0)"}}));
}

// --- LabelSmoothing ------------------------------------------------------------------------------

TEST(LabelSmoothingTest, MixesIndicesWithTheUniformDistribution) {
  const at::Tensor smooth = smooth_labels(torch::zeros({2, 4}), torch::tensor({1, -100}), 0.2);
  EXPECT_TRUE(
      torch::allclose(smooth, torch::tensor({{0.05, 0.85, 0.05, 0.05}, {0.05, 0.05, 0.05, 0.05}})));
}

TEST(LabelSmoothingTest, MixesProbabilitiesAndTakesMoreDimensions) {
  const at::Tensor half = torch::tensor({{0.5, 0.5}});
  EXPECT_TRUE(torch::allclose(smooth_labels(torch::zeros({1, 2}), half, 0.3), half));
  const at::Tensor pixels = smooth_labels(torch::zeros({1, 2, 3}), torch::tensor({{0, 1, 1}}), 0.5);
  EXPECT_TRUE(torch::allclose(pixels, torch::tensor({{{0.75, 0.25, 0.25}, {0.25, 0.75, 0.75}}})));
  EXPECT_THROW(smooth_labels(torch::zeros({1, 2}), torch::zeros({1, 3}), 0.5), UsageError);
}

TEST(LabelSmoothingTest, ReplacesTheTargetsWhileTheLossIsComputed) {
  State state;
  Logger logger(state);
  state.batch = Batch::named({{"x", torch::ones({2, 2})}, {"y", torch::tensor({0, 1})}});
  state.outputs = torch::zeros({2, 4});
  LabelSmoothing algorithm({.smoothing = 0.2, .target_key = "y"});
  EXPECT_TRUE(algorithm.match(Event::kBeforeLoss, state));
  EXPECT_TRUE(algorithm.match(Event::kAfterLoss, state));
  EXPECT_FALSE(algorithm.match(Event::kBatchEnd, state));
  algorithm.apply(Event::kBeforeLoss, state, logger);
  EXPECT_NEAR(state.batch["y"][0][0].item<double>(), 0.85, 1e-6);
  algorithm.apply(Event::kAfterLoss, state, logger);
  EXPECT_TRUE(state.batch["y"].equal(torch::tensor({0, 1})));
}

TEST(LabelSmoothingTest, StateIsItsConstructorCall) {
  EXPECT_EQ(LabelSmoothing().repr(), "LabelSmoothing(smoothing=0.1,target_key=1)");
  EXPECT_EQ(LabelSmoothing({.smoothing = 1, .target_key = "y"}).repr(),
            "LabelSmoothing(smoothing=1.0,target_key='y')");
  EXPECT_THROW(LabelSmoothing({.smoothing = 2}), UsageError);
  EXPECT_THROW(LabelSmoothing({.target_key = std::int64_t{-1}}), UsageError);
}

}  // namespace
}  // namespace cairn
