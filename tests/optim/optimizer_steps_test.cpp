// Compares every optimizer with PyTorch 1.13, and Adafactor with its paper: the weights after each
// step, the state, and training that continues from Python's state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/state_dict.h"

#include "testing/keys.h"
#include "testing/optimizer_cases.h"

namespace cairn {
namespace {

using testing::CaseRun;
using testing::OptimizerCase;

class OptimizerStepsTest : public ::testing::TestWithParam<OptimizerCase> {
 protected:
  static Value load_case(const std::string& name) {
    const bool by_formula = name.starts_with("Adafactor");
    return load(std::string(CAIRN_TEST_DATA "/torch-1.13/") +
                (by_formula ? "adafactor.pt" : "optimizer_steps.pt"))
        .at(name);
  }
  CaseRun start() const { return {*GetParam().recipe, file_, weights_after(0)}; }
  // The weights after this many steps.
  const List& weights_after(std::size_t steps) const {
    return steps == 0 ? file_.at("start").as_items()
                      : file_.at("weights").as_items()[steps - 1].as_items();
  }
  const Value& python_state(std::size_t i) const { return file_.at("state_dict").as_items()[i]; }

  const Value file_ = load_case(GetParam().name);
};
INSTANTIATE_TEST_SUITE_P(All, OptimizerStepsTest, ::testing::ValuesIn(testing::optimizer_cases()),
                         [](const auto& made) { return made.param.name; });

bool are_close(const at::Tensor& found, const at::Tensor& expected) {
  return found.sizes() == expected.sizes() && at::allclose(found, expected, 1e-10, 1e-13);
}

void expect_weights(const CaseRun& run, const List& expected, const std::string& where) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const at::Tensor tensor = tensor_of(expected[i].as_tensor());
    EXPECT_TRUE(are_close(run.module->parameters()[i], tensor))
        << where << ", weight " << i << "\n"
        << run.module->parameters()[i] << "\n"
        << tensor;
  }
}

double number_of(const Value& value) {
  return value.is_tensor() ? tensor_of(value.as_tensor()).to(at::kDouble).item<double>()
                           : value.as_float();
}

// A number may be a tensor in one and a plain number in the other, as in PyTorch's releases.
void expect_close(const Value& found, const Value& expected, const std::string& where) {
  if (found.is_list()) {
    ASSERT_EQ(found.as_items().size(), expected.as_items().size()) << where;
    for (std::size_t i = 0; i < found.as_items().size(); ++i) {
      expect_close(found.as_items()[i], expected.as_items()[i], where);
    }
  } else if (found.is_none() || expected.is_none()) {
    EXPECT_EQ(found.is_none(), expected.is_none()) << where;
  } else if (found.is_tensor() && expected.is_tensor()) {
    EXPECT_TRUE(are_close(tensor_of(found.as_tensor()).to(at::kComplexDouble),
                          tensor_of(expected.as_tensor()).to(at::kComplexDouble)))
        << where;
  } else {
    EXPECT_DOUBLE_EQ(number_of(found), number_of(expected)) << where;
  }
}

// Python's state is keyed by number, cairn's by name, and 1.13's {"momentum_buffer": None} is
// missing in cairn's.
void expect_states(const Value& found, const Value& expected) {
  for (const auto& [index, state] : expected.at("state").as_dict()) {
    const std::string name = testing::weight_name(static_cast<std::size_t>(index.as_int()));
    const Value* entry = found.at("state").find(name);
    if (entry == nullptr) {
      ASSERT_TRUE(state.at("momentum_buffer").is_none()) << name;
      continue;
    }
    EXPECT_THAT(testing::keys(*entry), ::testing::UnorderedElementsAreArray(testing::keys(state)));
    for (const auto& [key, value] : state.as_dict()) {
      expect_close(entry->at(key.as_str()), value, name + "/" + key.as_str());
    }
  }
}

TEST_P(OptimizerStepsTest, ComputesWhatPythonComputes) {
  CaseRun run = start();
  for (std::size_t k = 0; k < file_.at("weights").as_items().size(); ++k) {
    run.step(k);
    expect_weights(run, weights_after(k + 1), "step " + std::to_string(k + 1));
  }
}

// Compares types, too: Python's 0 is not 0.0.
TEST_P(OptimizerStepsTest, HasPythonsDefaultsAndWritesItsEntries) {
  const Value state = start().state();
  const Value& group = state.at("param_groups").as_items().at(0);
  for (const auto& [key, value] : python_state(0).at("param_groups").as_items().at(0).as_dict()) {
    if (key.as_str() == "params" || key.as_str() == "fused") continue;  // 1.13: False, 2.0: None
    EXPECT_EQ(group.at(key.as_str()), value) << key.as_str();
    EXPECT_EQ(group.at(key.as_str()).kind(), value.kind()) << key.as_str();
    if (!value.is_tuple()) continue;
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(group.at(key.as_str()).as_items()[i].kind(), value.as_items()[i].kind());
    }
  }
}

TEST_P(OptimizerStepsTest, WritesPythonsState) {
  CaseRun run = start();
  for (std::size_t k = 0; k < file_.at("weights").as_items().size(); ++k) {
    run.step(k);
    if (k == 2) expect_states(run.state(), python_state(1));
  }
  expect_states(run.state(), python_state(2));
}

TEST_P(OptimizerStepsTest, GoesOnFromPythonsState) {
  CaseRun run(*GetParam().recipe, file_, weights_after(3));
  load_optimizer_state_dict(*run.optimizer, *run.module, python_state(1));
  expect_states(run.state(), python_state(1));
  for (std::size_t k = 3; k < file_.at("weights").as_items().size(); ++k) {
    run.step(k);
    expect_weights(run, weights_after(k + 1), "step " + std::to_string(k + 1));
  }
  expect_states(run.state(), python_state(2));
}

TEST_P(OptimizerStepsTest, GoesOnFromItsOwnStateBitForBit) {
  CaseRun straight = start();
  for (std::size_t k = 0; k < 3; ++k)
    straight.step(k);
  List weights;
  for (const at::Tensor& parameter : straight.module->parameters())
    weights.emplace_back(view_of(parameter));
  CaseRun resumed(*GetParam().recipe, file_, weights);
  load_optimizer_state_dict(*resumed.optimizer, *resumed.module, straight.state());
  EXPECT_EQ(resumed.state(), straight.state());
  for (std::size_t k = 3; k < file_.at("weights").as_items().size(); ++k) {
    straight.step(k);
    resumed.step(k);
  }
  EXPECT_EQ(resumed.state(), straight.state());
  EXPECT_EQ(state_dict(*resumed.module), state_dict(*straight.module));
}

// --- What the golden files do not have
// -----------------------------------------------------------

// The weights after a few steps on a quadratic, with decay.
template <class Recipe, class Options>
at::Tensor trained(const Options& options, double decay_outside = 0) {
  at::Tensor w = torch::linspace(-1, 2, 6, at::kDouble).requires_grad_();
  const auto optimizer = Recipe(options).create({w});
  for (int k = 0; k < 4; ++k) {
    w.mutable_grad() = w.detach() * (k + 1) - 0.5;
    if (decay_outside != 0) {
      const torch::NoGradGuard no_grad;
      w.mul_(1 - decay_outside);
    }
    optimizer->step();
  }
  return w.detach();
}

TEST(OptimizerOptionsTest, DecoupledDecayIsThatOfAdamW) {
  EXPECT_TRUE(at::equal(
      trained<Adam>(AdamOptions{.lr = 0.1, .weight_decay = 0.2, .decoupled_weight_decay = true}),
      trained<AdamW>(AdamWOptions{.lr = 0.1, .weight_decay = 0.2})));
  EXPECT_TRUE(at::equal(
      trained<NAdam>(NAdamOptions{.lr = 0.1, .weight_decay = 0.2, .decoupled_weight_decay = true}),
      trained<NAdam>(NAdamOptions{.lr = 0.1}, 0.1 * 0.2)));
  EXPECT_TRUE(at::equal(
      trained<RAdam>(RAdamOptions{.lr = 0.1, .weight_decay = 0.2, .decoupled_weight_decay = true}),
      trained<RAdam>(RAdamOptions{.lr = 0.1}, 0.1 * 0.2)));
}

TEST(OptimizerOptionsTest, GroupsThatAreAddedAreDecoupledToo) {
  at::Tensor w = torch::ones({2}, torch::requires_grad());
  const auto adam =
      Adam({.lr = 0.5, .weight_decay = 0.5, .decoupled_weight_decay = true}).create({});
  adam->add_param_group(torch::optim::OptimizerParamGroup({w}));
  w.mutable_grad() = torch::zeros({2});
  adam->step();
  EXPECT_TRUE(at::allclose(w, torch::full({2}, 0.75)));
}

TEST(OptimizerOptionsTest, SparseGradientsAreRefusedByNameWherePythonRefusesThem) {
  at::Tensor w = torch::ones({3, 2}, torch::requires_grad());
  w.mutable_grad() = torch::ones({3, 2}).to_sparse();
  EXPECT_THROW(NAdam().create({w})->step(), UnsupportedError);
  EXPECT_THROW(Adagrad({.weight_decay = 0.1}).create({w})->step(), UnsupportedError);
  w.mutable_grad() = torch::ones({3, 2});
  EXPECT_THROW(SparseAdam().create({w})->step(), UnsupportedError);
  at::Tensor complex = torch::ones({2}, torch::dtype(at::kComplexFloat).requires_grad(true));
  complex.mutable_grad() = torch::ones({2}, at::kComplexFloat);
  EXPECT_THROW(Adafactor().create({complex})->step(), UnsupportedError);
}

TEST(OptimizerOptionsTest, LBFGSWritesItsCountsBeforeItsFirstIteration) {
  const auto net = std::make_shared<torch::nn::Module>();
  const at::Tensor w = net->register_parameter("w", torch::zeros({2}));
  const auto lbfgs = LBFGS().create({w});
  lbfgs->step([&] {
    w.mutable_grad() = torch::zeros({2});
    return torch::zeros({});
  });
  const Value state = optimizer_state_dict(*lbfgs, *net);
  EXPECT_EQ(state.at("state").at("w"), (Dict{{"func_evals", 1}, {"n_iter", 0}}));
  load_optimizer_state_dict(*lbfgs, *net, state);
  EXPECT_EQ(optimizer_state_dict(*lbfgs, *net), state);
}

}  // namespace
}  // namespace cairn
