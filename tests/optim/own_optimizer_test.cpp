// Tests a user's own optimizer, in both forms of testing/lion.h.
#include "cairn/optim/own_optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "cairn/error.h"
#include "cairn/train/state_dict.h"

#include "testing/keys.h"
#include "testing/lion.h"
#include "testing/message_of.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::keys;
using testing::Lion;
using testing::message_of;
using testing::OldLion;
using testing::UnsavedLion;

struct Training {
  template <class Optimizer>
  explicit Training(std::in_place_type_t<Optimizer> /*of*/)
      : optimizer(std::make_shared<Optimizer>(net->parameters())) {
    const torch::NoGradGuard no_grad;
    for (const at::Tensor& parameter : net->parameters())
      parameter.copy_(torch::linspace(-1, 1, parameter.numel()).view_as(parameter));
  }
  void step() {
    optimizer->zero_grad();
    net->forward(torch::linspace(-1, 2, 6).view({2, 3}) * ++steps).square().mean().backward();
    optimizer->step();
  }
  Value state() const { return optimizer_state_dict(*optimizer, *net); }

  torch::nn::Linear net{3, 2};
  std::shared_ptr<torch::optim::Optimizer> optimizer;
  int steps = 0;
};

TEST(OwnOptimizerTest, IsSavedByItsNamesInPythonsShape) {
  Training run(std::in_place_type<Lion>);
  run.step();
  const Value state = run.state();
  EXPECT_EQ(optimizer_name(*run.optimizer), "Lion");
  EXPECT_THAT(keys(state.at("state")), ElementsAre("weight", "bias"));
  EXPECT_THAT(keys(state.at("state").at("bias")), ElementsAre("exp_avg"));
  EXPECT_EQ(state.at("param_groups").as_items().at(0), (Dict{{"lr", 1e-4},
                                                             {"betas", Tuple{{0.9, 0.99}}},
                                                             {"weight_decay", 0.0},
                                                             {"params", List{"weight", "bias"}}}));
}

TEST(OwnOptimizerTest, BothFormsAreTheSameAndTakeEachOthersState) {
  Training one(std::in_place_type<Lion>);
  Training other(std::in_place_type<OldLion>);
  one.step();
  other.step();
  EXPECT_EQ(one.state(), other.state());
  Training resumed(std::in_place_type<OldLion>);
  load_state_dict(*resumed.net, state_dict(*one.net));
  load_optimizer_state_dict(*resumed.optimizer, *resumed.net, one.state());
  resumed.steps = 1;
  one.step();
  resumed.step();
  EXPECT_EQ(one.state(), resumed.state());
  EXPECT_EQ(state_dict(*one.net), state_dict(*resumed.net));
}

TEST(OwnOptimizerTest, SchedulersFindItsInitialRate) {
  for (Training& run :
       std::array{Training(std::in_place_type<Lion>), Training(std::in_place_type<OldLion>)}) {
    EXPECT_THAT(initial_learning_rates(*run.optimizer), ElementsAre(1e-4));
    set_learning_rates(*run.optimizer, {0.5});
    const Value group = run.state().at("param_groups").as_items().at(0);
    EXPECT_EQ(group.at("initial_lr").as_float(), 1e-4);
    EXPECT_EQ(group.at("lr").as_float(), 0.5);
  }
}

TEST(OwnOptimizerTest, WhatDoesNotFitIsListedAndNothingChanged) {
  Training run(std::in_place_type<Lion>);
  run.step();
  const Value before = run.state();
  const Value changed =
      Dict{{"state", Dict{{"weight", Dict{{"exp_avg", view_of(torch::zeros({7}))}}},
                          {"bias", Dict{{"momentum", 1}}}}},
           {"param_groups",
            List{Dict{{"lr", "fast"}, {"betas", 1}, {"params", List{"weight", "bias"}}}}}};
  EXPECT_THAT(
      message_of([&] { load_optimizer_state_dict(*run.optimizer, *run.net, changed); }),
      AllOf(HasSubstr("does not fit the optimizer (Lion)"),
            HasSubstr("\"weight\": \"exp_avg\" has shape [7], its parameter has [2, 3]"),
            HasSubstr("\"bias\": \"exp_avg\" is missing"),
            HasSubstr("\"bias\": this optimizer has no \"momentum\""),
            HasSubstr("\"lr\" must be a number, found str"), HasSubstr("\"betas\" must be a tuple"),
            HasSubstr("\"weight_decay\" is missing")));
  EXPECT_EQ(run.state(), before);
}

TEST(OwnOptimizerTest, AClassWithoutALayoutIsRefusedByItsReadableName) {
  Training run(std::in_place_type<UnsavedLion>);
  EXPECT_THROW(run.state(), UnsupportedError);
  EXPECT_FALSE(can_be_saved(*run.optimizer));
  EXPECT_THAT(message_of([&] { run.state(); }),
              AllOf(HasSubstr("the optimizer UnsavedLion cannot be saved"),
                    HasSubstr("cairn/optim/own_optimizer.h")));
}

struct OtherOptions : torch::optim::OptimizerCloneableOptions<OtherOptions> {};

struct WrongLayout final : UnsavedLion, LayoutOf<OtherOptions, testing::OldLionState> {
  using UnsavedLion::UnsavedLion;
  std::string python_name() const override { return "Lion"; }
  void describe_group(GroupFields& /*group*/, OtherOptions& /*options*/) const override {}
  void describe_state(StateFields& /*state*/, testing::OldLionState& /*values*/,
                      const OtherOptions& /*options*/) const override {}
};

// --- Another step for a class of libtorch's

class SignedAdam final
    : public StepOf<torch::optim::Adam, torch::optim::AdamOptions, torch::optim::AdamParamState> {
 public:
  using StepOf::StepOf;
  std::vector<double> initial_rates;

 private:
  void update(const Update& u) override {
    if (!u.state.exp_avg().defined()) u.state.exp_avg(at::zeros_like(u.parameter));
    u.state.exp_avg().lerp_(u.gradient, 1 - std::get<0>(u.options.betas()));
    u.parameter.sub_(u.state.exp_avg().sign(), u.options.lr());
    initial_rates.push_back(u.initial_lr);
  }
};

TEST(StepOfTest, AClassOfLibtorchsKeepsItsOptionsStatesAndNameWithAnotherStep) {
  Training run(std::in_place_type<SignedAdam>);
  auto& adam = dynamic_cast<SignedAdam&>(*run.optimizer);
  auto& options = static_cast<torch::optim::AdamOptions&>(adam.param_groups()[0].options());
  options.lr(0.25);
  const at::Tensor before = run.net->weight.detach().clone();
  run.step();
  EXPECT_TRUE(at::equal((run.net->weight - before).abs(), at::full_like(before, 0.25)));
  EXPECT_EQ(optimizer_name(adam), "Adam");
  EXPECT_EQ(run.state().at("state").at("weight").at("exp_avg"),
            Value(view_of(at::zeros({2, 3}).lerp(run.net->weight.grad(), 1 - 0.9))));
  EXPECT_THAT(initial_learning_rates(adam), ElementsAre(0.25));
  set_learning_rates(adam, {0.5});
  run.step();
  EXPECT_THAT(adam.initial_rates, ElementsAre(0.25, 0.25, 0.25, 0.25));
}

TEST(StepOfTest, AGroupWithOptionsOfAnotherClassIsAUsageError) {
  Training run(std::in_place_type<Lion>);
  const torch::nn::Linear more(3, 2);
  run.optimizer->add_param_group(torch::optim::OptimizerParamGroup(
      more->parameters(), std::make_unique<torch::optim::SGDOptions>(0.1)));
  const auto& options = run.optimizer->param_groups().back().options();
  if (dynamic_cast<const torch::optim::SGDOptions*>(&options) == nullptr)
    GTEST_SKIP() << "this libtorch gives the group options of the optimizer's own class";
  EXPECT_THAT(message_of<UsageError>([&] { run.optimizer->step(); }),
              HasSubstr("Lion: a parameter group has options of the class SGDOptions"));
}

TEST(OwnOptimizerTest, ALayoutOfOtherClassesIsAUsageError) {
  Training run(std::in_place_type<WrongLayout>);
  EXPECT_THROW(run.state(), UsageError);
  EXPECT_THAT(message_of([&] { run.state(); }),
              HasSubstr("Lion: its options are a OldLionOptions"));
}

TEST(OwnOptimizerTest, TorchsOwnArchivesRefuseItByName) {
  Training run(std::in_place_type<Lion>);
  torch::serialize::OutputArchive archive;
  EXPECT_THAT(message_of([&] { run.optimizer->save(archive); }),
              HasSubstr("torch::save and torch::load do not know Lion"));
}

}  // namespace
}  // namespace cairn
