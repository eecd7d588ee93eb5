#include "cairn/optim/optimizers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "cairn/error.h"

#include "testing/lion.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<at::Tensor> parameters() { return {torch::ones({2}, torch::requires_grad())}; }

void expect_refused(const OptimizerRecipe& recipe, const std::string& text) {
  try {
    recipe.create(parameters());
    ADD_FAILURE() << "nothing was thrown for " << text;
  } catch (const UsageError& e) {
    EXPECT_THAT(e.what(), HasSubstr(text));
  }
}

TEST(OptimizersTest, RecipesMakeTheirOptimizersWithTheirOptions) {
  EXPECT_EQ(optimizer_name(*SGD().create(parameters())), "SGD");
  EXPECT_EQ(optimizer_name(*Adam().create(parameters())), "Adam");
  EXPECT_EQ(optimizer_name(*AdamW().create(parameters())), "AdamW");
  EXPECT_EQ(optimizer_name(*RMSprop().create(parameters())), "RMSprop");
  EXPECT_EQ(optimizer_name(*Adagrad().create(parameters())), "Adagrad");
  EXPECT_EQ(optimizer_name(*LBFGS().create(parameters())), "LBFGS");
  EXPECT_EQ(optimizer_name(*DecoupledSGDW().create(parameters())), "DecoupledSGDW");
  EXPECT_EQ(optimizer_name(*DecoupledAdamW().create(parameters())), "DecoupledAdamW");
  const auto adamw = AdamW({.lr = 0.5, .betas = {0.1, 0.2}, .amsgrad = true}).create(parameters());
  const auto& options =
      static_cast<torch::optim::AdamWOptions&>(adamw->param_groups()[0].options());
  EXPECT_EQ(options.lr(), 0.5);
  EXPECT_EQ(options.betas(), std::make_tuple(0.1, 0.2));
  EXPECT_EQ(options.weight_decay(), 0.01);
  EXPECT_TRUE(options.amsgrad());
}

TEST(OptimizersTest, RefuseOptionsThatCannotBeByName) {
  expect_refused(SGD({.lr = -1}), "SGD: lr must be 0 or more, found -1");
  expect_refused(SGD({.nesterov = true}), "SGD: nesterov needs a momentum");
  expect_refused(Adam({.betas = {0.9, 1}}), "Adam: betas must be numbers in [0, 1), found 1");
  expect_refused(AdamW({.weight_decay = -1}), "AdamW: weight_decay");
  expect_refused(RMSprop({.alpha = -1}), "RMSprop: alpha");
  expect_refused(Adagrad({.lr_decay = -1}), "Adagrad: lr_decay");
  expect_refused(Adadelta({.rho = 2}), "Adadelta: rho must be from 0 to 1, found 2");
  expect_refused(Adamax({.eps = -1}), "Adamax: eps");
  expect_refused(NAdam({.momentum_decay = -1}), "NAdam: momentum_decay");
  expect_refused(RAdam({.betas = {-1, 0}}), "RAdam: betas");
  expect_refused(ASGD({.weight_decay = -1}), "ASGD: weight_decay");
  expect_refused(Rprop({.etas = {1.5, 2}}), "Rprop: etas must be between 0 and 1, then more");
  expect_refused(Adafactor({.d = 0.5}), "Adafactor: d must be from 1 to inf, found 0.5");
  expect_refused(SparseAdam({.lr = 0}), "SparseAdam: lr must be more than 0");
  expect_refused(LBFGS({.line_search_fn = "armijo"}), "LBFGS: line_search_fn must be");
  expect_refused(DecoupledSGDW({.momentum = -1}), "DecoupledSGDW: momentum");
  expect_refused(DecoupledAdamW({.eps = std::nan("")}), "DecoupledAdamW: eps");
}

TEST(OptimizersTest, HandleTakesARecipeOrAnOptimizerOfOnesOwn) {
  EXPECT_FALSE(OptimizerHandle());
  EXPECT_THROW(OptimizerHandle().create(parameters()), UsageError);
  const OptimizerHandle recipe = AdamW({.lr = 0.5});
  EXPECT_THAT(learning_rates(*recipe.create(parameters())), ElementsAre(0.5));
  const auto own = std::make_shared<torch::optim::SGD>(parameters(), torch::optim::SGDOptions(2));
  EXPECT_EQ(OptimizerHandle(own).create({}), own);
  const OptimizerHandle taken = std::make_unique<torch::optim::SGD>(parameters(), 2);
  EXPECT_THAT(learning_rates(*taken.create({})), ElementsAre(2));
}

TEST(OptimizersTest, EmptyBracesAreTheDefaults) {
  const auto rates = [](const OptimizerRecipe& recipe) {
    return learning_rates(*recipe.create(parameters()));
  };
  EXPECT_EQ(rates(Adam({})), rates(Adam()));
  EXPECT_EQ(rates(DecoupledSGDW({})), rates(DecoupledSGDW()));
}

TEST(OptimizersTest, RatesAreReadAndSetGroupByGroup) {
  const auto optimizer = SGD({.lr = 0.5}).create(parameters());
  optimizer->add_param_group(
      torch::optim::OptimizerParamGroup({torch::ones({2}, torch::requires_grad())},
                                        std::make_unique<torch::optim::SGDOptions>(0.25)));
  EXPECT_THAT(learning_rates(*optimizer), ElementsAre(0.5, 0.25));
  set_learning_rates(*optimizer, {1, 2});
  EXPECT_THAT(learning_rates(*optimizer), ElementsAre(1, 2));
  EXPECT_THROW(set_learning_rates(*optimizer, {1}), UsageError);
}

TEST(OptimizersTest, InitialRatesAreKeptFromTheFirstCallOn) {
  const auto optimizer = SGD({.lr = 0.5}).create(parameters());
  EXPECT_THAT(initial_learning_rates(*optimizer), ElementsAre(0.5));
  set_learning_rates(*optimizer, {0.125});
  EXPECT_THAT(initial_learning_rates(*optimizer), ElementsAre(0.5));
  EXPECT_THAT(learning_rates(*optimizer), ElementsAre(0.125));
}

TEST(OptimizersTest, OptimizersOfOtherClassesAreRefusedByName) {
  testing::UnsavedLion lion(parameters());
  EXPECT_THROW(optimizer_name(lion), UnsupportedError);
  EXPECT_THAT(initial_learning_rates(lion), ElementsAre(1e-4));  // schedulers work nevertheless
}

}  // namespace
}  // namespace cairn
