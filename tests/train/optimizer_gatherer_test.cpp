// The gatherer never trusts what it keeps of an optimizer from save to save. After any change, the
// gathered state equals a new state of optimizer_state_dict(), in each byte of the pickle and of
// the tensors.
#include "train/optimizer/optimizer_gatherer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <thread>

#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/optim/own_optimizer.h"
#include "cairn/train/parameters.h"
#include "cairn/train/state_dict.h"

#include "count_allocations.h"
#include "encoded_bytes.h"
#include "train/optimizer/param_state.h"

namespace cairn {
namespace {

using AdamState = torch::optim::AdamParamState;

struct Block : torch::nn::Module {
  Block() {
    std::int64_t columns = 3;
    for (const char* name : {"p0", "p1", "p2", "p3"}) {
      register_parameter(name, torch::rand({4, columns++}));
    }
    register_buffer("scale", torch::rand({2}));
  }
  torch::OrderedDict<std::string, at::Tensor>& table() { return parameters_; }
};

// Makes a step as in training.
void step(torch::nn::Module& module, torch::optim::Optimizer& optimizer) {
  for (at::Tensor& parameter : module.parameters()) {
    parameter.mutable_grad() = torch::rand_like(parameter);
  }
  optimizer.step([&] { return torch::ones({}); });
}

class OptimizerGathererTest : public ::testing::Test {
 protected:
  OptimizerGathererTest() {
    use(Adam({.lr = 0.1, .amsgrad = true}));
    step(*net_, *optimizer_);
  }
  void use(const OptimizerHandle& handle) { optimizer_ = handle.create(parameters(*net_)); }
  AdamState& state_of(const std::string& name) {
    return param_state<AdamState>(*optimizer_, net_->table()[name]);
  }

  Value gather() { return gatherer_.gather(*optimizer_, *net_); }
  // Gathers until the parts that do not change are kept.
  void settle() {
    (void)gather();
    (void)gather();
    (void)gather();
  }
  // Gathers twice. Returns whether both states are the same kept Value.
  bool is_kept() {
    const Value before = gather();
    return gather().at("state").identity() == before.at("state").identity();
  }
  void expect_true() {
    const std::string anew = bytes_of(optimizer_state_dict(*optimizer_, *net_));
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(bytes_of(gather()), anew);
    }
  }
  // Gathers before and after the change. The states that are gathered after it must equal a newly
  // made state.
  void expect_true_after(const std::function<void()>& change) {
    settle();
    change();
    expect_true();
  }

  std::shared_ptr<Block> net_ = std::make_shared<Block>();
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  OptimizerGatherer gatherer_;
};

TEST_F(OptimizerGathererTest, WhatDidNotChangeIsTheSameValue) {
  settle();
  EXPECT_TRUE(is_kept());
  const Value before = gather();
  step(*net_, *optimizer_);  // Other numbers in the same tensors, and another step count.
  EXPECT_EQ(gather().at("state").identity(), before.at("state").identity());
  expect_true();
}

// Tensors that an optimizer makes anew in each step are not kept: that would double their memory.
TEST_F(OptimizerGathererTest, WhatChangesWithEveryStepIsNotKept) {
  for (int i = 0; i < 4; ++i) {
    state_of("p2").exp_avg(state_of("p2").exp_avg().clone());
    const auto memory = c10::weak_intrusive_ptr<c10::StorageImpl>(
        c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
            state_of("p2").exp_avg().storage().unsafeGetStorageImpl()));
    (void)gather();
    const at::Tensor other = state_of("p2").exp_avg().clone();
    state_of("p2").exp_avg(other);
    EXPECT_TRUE(memory.expired());
  }
  expect_true();
}

TEST_F(OptimizerGathererTest, ChangesBetweenTheFirstTimes) {
  for (int gathered = 0; gathered < 4; ++gathered) {
    gatherer_ = {};
    for (int i = 0; i < gathered; ++i) {
      (void)gather();
      step(*net_, *optimizer_);
    }
    state_of("p1").exp_avg(torch::rand({4, 4}));
    expect_true();
  }
}

TEST_F(OptimizerGathererTest, ComparingAllocatesOnceForEachParameter) {
  constexpr std::size_t kMany = 1000;
  auto many = std::make_shared<Block>();
  for (std::size_t i = 0; i < kMany; ++i) {
    many->register_parameter("a_name_that_is_not_short_" + std::to_string(i), torch::rand({2, 3}));
  }
  net_ = many;
  use(Adam());
  step(*net_, *optimizer_);
  settle();
  const Value before = gather();
  const std::size_t begin = allocations_so_far();
  const Value after = gather();
  // The state of a parameter has three tensors.
  EXPECT_LT(allocations_so_far() - begin, kMany + 100);
  EXPECT_EQ(after.at("state").identity(), before.at("state").identity());
}

TEST_F(OptimizerGathererTest, CountsOfStepsAreThoseOfNow) {
  for (int i = 0; i < 3; ++i) {
    expect_true_after([&] { step(*net_, *optimizer_); });
  }
  expect_true_after([&] { state_of("p1").step(1 << 24); });
  const Value before = gather();
  // From this value on, the step is a float64.
  expect_true_after([&] { state_of("p1").step((1 << 24) + 1); });
  EXPECT_NE(gather().at("state").identity(), before.at("state").identity());
  expect_true_after([&] { state_of("p1").step((1 << 24) + 3); });
  expect_true_after([&] { state_of("p1").step(5); });
}

TEST_F(OptimizerGathererTest, OtherTensorsOfAState) {
  expect_true_after([&] { state_of("p1").exp_avg(torch::rand({4, 4})); });
  expect_true_after([&] { state_of("p1").exp_avg().fill_(3); });
  expect_true_after([&] { state_of("p2").exp_avg_sq(torch::rand({20})); });
  expect_true_after([&] { state_of("p2").exp_avg_sq().resize_({5, 4}); });
  expect_true_after([&] { state_of("p2").exp_avg_sq().t_(); });
  expect_true_after([&] { state_of("p2").exp_avg_sq().set_data(torch::rand({20})); });
  expect_true_after([&] { state_of("p3").exp_avg(state_of("p3").exp_avg().to(at::kDouble)); });
  expect_true_after([&] { state_of("p3").max_exp_avg_sq(at::Tensor()); });
  expect_true_after([&] { state_of("p3").max_exp_avg_sq(torch::rand({4, 6})); });
  expect_true_after([&] { state_of("p0").exp_avg(state_of("p0").exp_avg_sq()); });  // Tied.
  expect_true_after([&] { state_of("p0").exp_avg(net_->table()["p0"].detach()); });
  EXPECT_TRUE(is_kept());
}

TEST_F(OptimizerGathererTest, OtherStates) {
  expect_true_after(
      [&] { optimizer_->state().erase(param_state_key<ParamStateKey>(net_->table()["p2"])); });
  expect_true_after([&] { step(*net_, *optimizer_); });
  expect_true_after([&] { optimizer_->state().clear(); });
  expect_true_after([&] { step(*net_, *optimizer_); });
  expect_true_after([&] {
    auto& slot = optimizer_->state()[param_state_key<ParamStateKey>(net_->table()["p1"])];
    slot = slot->clone();  // The copy has the same tensors.
  });
}

TEST_F(OptimizerGathererTest, OtherParametersAndNames) {
  expect_true_after([&] {
    optimizer_->param_groups()[0].params().push_back(
        net_->register_parameter("new", torch::rand({2})));
  });
  expect_true_after([&] { step(*net_, *optimizer_); });
  expect_true_after([&] {  // A parameter that is listed twice is written once.
    auto& listed = optimizer_->param_groups()[0].params();
    listed.push_back(listed[1]);
  });
  expect_true_after([&] { optimizer_->param_groups()[0].params().pop_back(); });
  expect_true_after([&] {
    auto& listed = optimizer_->param_groups()[0].params();
    std::swap(listed[0], listed[1]);
  });
  expect_true_after([&] {
    const at::Tensor tensor = net_->table()["p3"];
    net_->table().erase("p3");
    net_->table().insert("q3", tensor);
  });
  expect_true_after([&] {  // The same tensor has another first name.
    net_->table().insert("also_p1", net_->table()["p1"]);
  });
  expect_true_after([&] { optimizer_->param_groups()[0].options().set_lr(0.5); });
  expect_true_after([&] {
    net_ = std::make_shared<Block>();
    use(Adam());
    step(*net_, *optimizer_);
  });
}

TEST_F(OptimizerGathererTest, AParameterThatIsNoLongerTheModelsIsAnErrorEachTime) {
  settle();
  const at::Tensor tensor = net_->table()["p1"];
  net_->table().erase("p1");
  EXPECT_THROW((void)gather(), UsageError);
  net_->register_buffer("p1", tensor);
  EXPECT_THROW((void)gather(), UsageError);
}

TEST_F(OptimizerGathererTest, EveryOptimizer) {
  const std::vector<OptimizerHandle> all = {SGD({.lr = 0.1}),
                                            SGD({.lr = 0.1, .momentum = 0.9}),
                                            Adam(),
                                            AdamW({.amsgrad = true}),
                                            RMSprop({.momentum = 0.5, .centered = true}),
                                            Adagrad(),
                                            Adadelta(),
                                            Adamax(),
                                            NAdam(),
                                            RAdam(),
                                            ASGD(),
                                            Rprop(),
                                            Adafactor(),
                                            LBFGS(),
                                            DecoupledSGDW({.lr = 0.1}),
                                            DecoupledAdamW()};
  for (const OptimizerHandle& handle : all) {
    use(handle);
    SCOPED_TRACE(optimizer_name(*optimizer_));
    expect_true();
    for (int i = 0; i < 3; ++i) {
      expect_true_after([&] { step(*net_, *optimizer_); });
    }
    expect_true_after([&] { net_->table()["p1"].set_data(torch::rand({4, 4})); });
  }
}

TEST_F(OptimizerGathererTest, AnotherThreadHasViewsOfItsOwn) {
  settle();
  const Value here = gather();
  Value there;
  std::thread([&] { there = gather(); }).join();
  EXPECT_EQ(bytes_of(there), bytes_of(here));
  EXPECT_NE(there.at("state").identity(), here.at("state").identity());
}

TEST_F(OptimizerGathererTest, LivesNoLongerThanTheGatherer) {
  settle();
  const auto memory =
      c10::weak_intrusive_ptr<c10::StorageImpl>(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
          state_of("p0").exp_avg().storage().unsafeGetStorageImpl()));
  optimizer_.reset();
  EXPECT_FALSE(memory.expired());
  gatherer_ = {};
  EXPECT_TRUE(memory.expired());
}

// A state with every kind of entry. Its description writes to the state that it describes.
struct OddOptions {
  double lr = 1;
  void describe(GroupFields& group) { group.number("lr", lr); }
};
struct OddState {
  at::Tensor mean;
  at::Tensor scalar;
  std::int64_t steps = 0;
  std::int64_t seen = 0;
  std::optional<double> best;
  std::optional<std::vector<at::Tensor>> history;
  bool says_twice = false;
  void describe(StateFields& state, const OddOptions& /*options*/) {
    state.tensor("mean", mean, {.required = false, .or_none = true});
    state.scalar("scalar", scalar, false);
    state.step("step", steps);
    if (says_twice) state.tensor("step", mean, {.required = false});
    state.count("seen", seen);
    state.number("best", best);
    state.tensors("history", history, {});
    seen = -1;  // Changes only the copy that is described.
  }
};
class Odd final : public OptimizerOf<OddOptions, OddState> {
 public:
  using OptimizerOf::OptimizerOf;
  std::string python_name() const override { return "Odd"; }
  OddState& of(const at::Tensor& parameter) {
    return param_state<StateOf<OddState>>(*this, parameter).values;
  }

 private:
  void update(const Update& u) override { ++u.state.steps; }
};

TEST_F(OptimizerGathererTest, EveryKindOfField) {
  use(RecipeOf<Odd>());
  step(*net_, *optimizer_);
  OddState& odd = dynamic_cast<Odd&>(*optimizer_).of(net_->table()["p1"]);
  expect_true_after([&] { odd.mean = torch::rand({4, 4}); });
  expect_true_after([&] { odd.scalar = torch::rand({}); });
  expect_true_after([&] { odd.scalar.fill_(2); });
  expect_true_after([&] { odd.steps = 17; });
  EXPECT_TRUE(is_kept());
  expect_true_after([&] { odd.seen = 3; });
  EXPECT_EQ(odd.seen, 3);
  expect_true_after([&] { odd.best = 0.5; });
  expect_true_after([&] { odd.best = -0.0; });
  expect_true_after([&] { odd.best = 0.0; });
  expect_true_after([&] { odd.best.reset(); });
  expect_true_after([&] { odd.mean.reset(); });
  expect_true_after([&] { odd.scalar = torch::rand({1}); });
  expect_true_after([&] { odd.scalar = torch::rand({1}); });
  expect_true_after([&] { odd.scalar.reset(); });
  expect_true_after([&] { odd.history.emplace({torch::rand({2})}); });
  expect_true_after([&] { odd.history->push_back(torch::rand({2})); });
  expect_true_after([&] { odd.history.reset(); });
  const at::Tensor phase = torch::rand({4, 4}, at::kComplexFloat);
  expect_true_after([&] { odd.mean = phase.conj(); });  // The view of such a tensor is of a copy.
  expect_true_after([&] { phase.fill_(c10::complex<float>(1, 2)); });
  expect_true_after([&] {
    odd.mean = torch::ones({4, 4});
    odd.says_twice = true;
  });
  expect_true_after([&] { odd.steps = 99; });
  EXPECT_EQ(odd.mean.sum().item<float>(), 16);  // The user's tensor was not written to.
}

}  // namespace
}  // namespace cairn
