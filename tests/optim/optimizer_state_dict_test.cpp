#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/state_dict.h"

#include "share.h"
#include "testing/keys.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::keys;
using testing::share;

// A small network with an optimizer, trained for some steps.
struct Trained {
  explicit Trained(const OptimizerRecipe& recipe, int steps = 0)
      : net(torch::nn::Linear(3, 2), torch::nn::Linear(2, 2)) {
    const torch::NoGradGuard no_grad;
    double value = 0.1;
    for (const at::Tensor& parameter : net->parameters()) {
      parameter.copy_(torch::linspace(-value, value, parameter.numel()).view_as(parameter));
      value += 0.1;
    }
    optimizer = recipe.create(net->parameters());
    for (int i = 0; i < steps; ++i) {
      step();
    }
  }

  void step() {
    const at::AutoGradMode grad(true);
    optimizer->zero_grad();
    const at::Tensor input = torch::linspace(-1, 2, 12).view({4, 3}) * (1 + 0.1 * counter++);
    net->forward(input).square().mean().backward();
    optimizer->step();
  }

  Value state() const { return optimizer_state_dict(*optimizer, *net); }
  void load(const Value& state) { load_optimizer_state_dict(*optimizer, *net, state); }
  std::vector<at::Tensor> weights() const {
    std::vector<at::Tensor> copies;
    for (const at::Tensor& parameter : net->parameters()) {
      copies.push_back(parameter.detach().clone());
    }
    return copies;
  }

  torch::nn::Sequential net;
  std::shared_ptr<torch::optim::Optimizer> optimizer;
  int counter = 0;
};

// A copy that does not change when the optimizer steps.
Value frozen(const Value& state) {
  if (state.is_tensor()) return view_of(tensor_of(state.as_tensor()).clone());
  if (state.is_dict()) {
    Dict copy;
    for (const auto& [key, value] : state.as_dict()) {
      copy.set(key, frozen(value));
    }
    return copy;
  }
  if (state.is_list()) {
    List copy;
    for (const Value& item : state.as_items()) {
      copy.push_back(frozen(item));
    }
    return copy;
  }
  return state;
}

// Returns the error for a changed state. Checks that the failed load changed nothing.
std::string refusal(const OptimizerRecipe& recipe, const Value& state) {
  Trained live(recipe, 2);
  const Value before = frozen(live.state());
  std::string message = "nothing was thrown";
  try {
    live.load(state);
  } catch (const MismatchError& e) {
    message = e.what();
  }
  EXPECT_EQ(live.state(), before);
  return message;
}

const Value& group_of(const Value& state) { return state.at("param_groups").as_items().at(0); }

// `state` with one entry of its first group replaced.
Value with_option(const Value& state, const char* key, const Value& value) {
  Dict changed = state.as_dict();
  Dict group = group_of(state).as_dict();
  group.set(key, value);
  changed.set("param_groups", List{group});
  return changed;
}

struct Case {
  std::string name;
  std::shared_ptr<OptimizerRecipe> recipe;
  std::vector<std::string> group_keys;
  std::vector<std::string> state_keys;
};
void PrintTo(const Case& made, std::ostream* out) { *out << made.name; }  // NOLINT: gtest's name

std::vector<Case> cases() {
  return {
      {"SGD",
       share(SGD({.lr = 0.1, .momentum = 0.9, .nesterov = true})),
       {"lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize", "foreach",
        "differentiable", "fused", "params"},
       {"momentum_buffer"}},
      {"Adam",
       share(Adam({.amsgrad = true})),
       {"lr", "betas", "eps", "weight_decay", "amsgrad", "maximize", "foreach", "capturable",
        "differentiable", "fused", "params"},
       {"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"}},
      {"AdamW",
       share(AdamW()),
       {"lr", "betas", "eps", "weight_decay", "amsgrad", "foreach", "maximize", "capturable",
        "differentiable", "fused", "params"},
       {"step", "exp_avg", "exp_avg_sq"}},
      {"RMSprop",
       share(RMSprop({.momentum = 0.5, .centered = true})),
       {"lr", "momentum", "alpha", "eps", "centered", "weight_decay", "capturable", "foreach",
        "maximize", "differentiable", "params"},
       {"step", "square_avg", "momentum_buffer", "grad_avg"}},
      {"Adagrad",
       share(Adagrad()),
       {"lr", "lr_decay", "eps", "weight_decay", "initial_accumulator_value", "foreach", "maximize",
        "differentiable", "fused", "params"},
       {"step", "sum"}},
      {"Adadelta",
       share(Adadelta()),
       {"lr", "rho", "eps", "weight_decay", "maximize", "capturable", "foreach", "differentiable",
        "params"},
       {"step", "square_avg", "acc_delta"}},
      {"Adamax",
       share(Adamax()),
       {"lr", "betas", "eps", "weight_decay", "foreach", "maximize", "differentiable", "capturable",
        "params"},
       {"step", "exp_avg", "exp_inf"}},
      {"NAdam",
       share(NAdam()),
       {"lr", "betas", "eps", "weight_decay", "momentum_decay", "decoupled_weight_decay",
        "maximize", "foreach", "capturable", "differentiable", "params"},
       {"step", "mu_product", "exp_avg", "exp_avg_sq"}},
      {"RAdam",
       share(RAdam()),
       {"lr", "betas", "eps", "weight_decay", "maximize", "foreach", "capturable",
        "decoupled_weight_decay", "differentiable", "params"},
       {"step", "exp_avg", "exp_avg_sq"}},
      {"ASGD",
       share(ASGD()),
       {"lr", "lambd", "alpha", "t0", "weight_decay", "foreach", "maximize", "differentiable",
        "capturable", "params"},
       {"step", "eta", "mu", "ax"}},
      {"Rprop",
       share(Rprop()),
       {"lr", "etas", "step_sizes", "foreach", "maximize", "differentiable", "capturable",
        "params"},
       {"step", "prev", "step_size"}},
      {"Adafactor",
       share(Adafactor()),
       {"lr", "beta2_decay", "eps", "d", "weight_decay", "foreach", "maximize", "params"},
       {"step", "variance"}},
      {"DecoupledSGDW",
       share(DecoupledSGDW({.momentum = 0.9})),
       {"lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize", "foreach",
        "differentiable", "fused", "initial_lr", "params"},
       {"momentum_buffer"}},
      {"DecoupledAdamW",
       share(DecoupledAdamW()),
       {"lr", "betas", "eps", "weight_decay", "amsgrad", "foreach", "maximize", "capturable",
        "differentiable", "fused", "initial_lr", "params"},
       {"step", "exp_avg", "exp_avg_sq"}},
  };
}

class EveryOptimizerTest : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, EveryOptimizerTest, ::testing::ValuesIn(cases()),
                         [](const auto& made) { return made.param.name; });

TEST_P(EveryOptimizerTest, WritesPythonsKeysInPythonsOrder) {
  const Value state = Trained(*GetParam().recipe, 1).state();
  EXPECT_THAT(keys(state), ElementsAre("state", "param_groups"));
  EXPECT_THAT(keys(state.at("state")), ElementsAre("0.weight", "0.bias", "1.weight", "1.bias"));
  EXPECT_EQ(keys(state.at("state").at("1.bias")), GetParam().state_keys);
  EXPECT_EQ(keys(group_of(state)), GetParam().group_keys);
  EXPECT_EQ(group_of(state).at("params"), (List{"0.weight", "0.bias", "1.weight", "1.bias"}));
}

TEST_P(EveryOptimizerTest, ContinuesFromASavedStateBitForBit) {
  Trained straight(*GetParam().recipe, 3);
  const Value saved = frozen(straight.state());
  Trained resumed(*GetParam().recipe);
  resumed.counter = 3;
  {
    const torch::NoGradGuard no_grad;
    const auto weights = straight.weights();
    for (std::size_t i = 0; i < weights.size(); ++i) {
      resumed.net->parameters()[i].copy_(weights[i]);
    }
  }
  resumed.load(saved);
  EXPECT_EQ(resumed.state(), saved);
  for (int i = 0; i < 2; ++i) {
    straight.step();
    resumed.step();
  }
  for (std::size_t i = 0; i < straight.weights().size(); ++i) {
    EXPECT_TRUE(straight.weights()[i].equal(resumed.weights()[i])) << i;
  }
}

TEST_P(EveryOptimizerTest, LoadsBeforeAnyStepWasSaved) {
  const Value fresh = frozen(Trained(*GetParam().recipe).state());
  Trained live(*GetParam().recipe, 2);
  live.load(fresh);
  EXPECT_EQ(live.state(), fresh);
  live.step();  // training continues
  EXPECT_THAT(keys(live.state().at("state")), ::testing::SizeIs(4));
}

// Whether both are the same optimizer, or have states that differ only in the class name, under
// which checkpoints store them.
bool are_alike(const std::string& a, const std::string& b) {
  const auto both_have = [&](const char* text) {
    return a.find(text) != std::string::npos && b.find(text) != std::string::npos;
  };
  return a == b || both_have("SGD") || both_have("Adam");
}

TEST_P(EveryOptimizerTest, RefusesTheStateOfEveryOther) {
  for (const Case& other : cases()) {
    if (are_alike(other.name, GetParam().name)) continue;
    EXPECT_THAT(refusal(*GetParam().recipe, Trained(*other.recipe, 1).state()),
                HasSubstr("nothing was changed:\n  "))
        << other.name;
  }
}

TEST(OptimizerStateDictTest, StepIsAFloatScalarOnTheHost) {
  const Value state = Trained(AdamW(), 3).state();
  const TensorView& step = state.at("state").at("0.bias").at("step").as_tensor();
  EXPECT_EQ(step.dtype, DType::kFloat32);
  EXPECT_THAT(step.shape, IsEmpty());
  EXPECT_EQ(tensor_of(step).item<float>(), 3);
}

TEST(OptimizerStateDictTest, StepsPastTwoToThe24StayExact) {
  Trained trained(AdamW(), 1);
  Value state = frozen(trained.state());
  state.mutable_dict()["state"].mutable_dict()["0.bias"].mutable_dict().set("step", (1 << 24) + 1);
  trained.load(state);
  const Value saved = trained.state().at("state").at("0.bias").at("step");
  EXPECT_EQ(tensor_of(saved.as_tensor()).item<double>(), (1 << 24) + 1);
}

TEST(OptimizerStateDictTest, TensorsAreViewsOfLiveMemory) {
  Trained trained(SGD({.momentum = 0.9}), 1);
  const Value state = trained.state();
  const auto before = tensor_of(state.at("state").at("0.bias").at("momentum_buffer").as_tensor());
  trained.step();
  const auto after = tensor_of(state.at("state").at("0.bias").at("momentum_buffer").as_tensor());
  EXPECT_FALSE(before.equal(after));
}

TEST(OptimizerStateDictTest, DecoupledSGDWWithoutMomentumWritesNoneLikeComposer) {
  Trained trained(DecoupledSGDW(), 1);
  const Value state = trained.state();
  EXPECT_EQ(state.at("state").at("0.bias"), (Dict{{"momentum_buffer", None{}}}));
  Trained other{DecoupledSGDW()};
  other.load(state);
  EXPECT_EQ(other.state(), state);
}

// PyTorch 1.13 writes None for SGD without momentum.
TEST(OptimizerStateDictTest, NoneForAMomentumBufferIsNoStateForSGD) {
  Trained trained{SGD()};
  Dict state = trained.state().as_dict();
  state.set("state", Dict{{"0.bias", Dict{{"momentum_buffer", None{}}}}});
  trained.load(state);
  EXPECT_THAT(trained.state().at("state").as_dict(), IsEmpty());
}

TEST(OptimizerStateDictTest, InitialRateIsSavedOnceASchedulerAskedForIt) {
  Trained trained{AdamW({.lr = 0.5})};
  EXPECT_EQ(group_of(trained.state()).find("initial_lr"), nullptr);
  initial_learning_rates(*trained.optimizer);
  set_learning_rates(*trained.optimizer, {0.25});
  const Value group = group_of(trained.state());
  EXPECT_EQ(group.at("initial_lr").as_float(), 0.5);
  EXPECT_EQ(group.at("lr").as_float(), 0.25);
  EXPECT_EQ(keys(group).back(), "params");
}

TEST(OptimizerStateDictTest, LoadedInitialRateReplacesTheLiveOne) {
  Trained saved{DecoupledAdamW({.lr = 0.5})};
  Trained live{DecoupledAdamW({.lr = 0.1})};
  live.load(saved.state());
  EXPECT_THAT(initial_learning_rates(*live.optimizer), ElementsAre(0.5));
  EXPECT_THAT(learning_rates(*live.optimizer), ElementsAre(0.5));
}

TEST(OptimizerStateDictTest, MissingInitialRateOfDecoupledOnesBecomesTheCurrentRate) {
  Trained live{DecoupledSGDW({.lr = 0.1})};
  Dict state = live.state().as_dict();
  Dict group = group_of(state).as_dict();
  group.erase("initial_lr");
  group.set("lr", 0.3);
  state.set("param_groups", List{group});
  live.load(state);
  EXPECT_THAT(initial_learning_rates(*live.optimizer), ElementsAre(0.3));
}

TEST(OptimizerStateDictTest, TakesStatesByPosition) {
  Trained saved(AdamW(), 2);
  const Value state = saved.state();
  Dict states;
  List params;
  for (const auto& [name, entry] : state.at("state").as_dict()) {
    states.set(static_cast<std::int64_t>(params.size()), entry);
    params.emplace_back(static_cast<std::int64_t>(params.size()));
  }
  Value by_position = with_option(state, "params", params);
  by_position.mutable_dict().set("state", states);
  Trained live{AdamW()};
  live.load(by_position);
  EXPECT_EQ(live.state(), state);
}

TEST(OptimizerStateDictTest, NamesMayStandInAnyOrder) {
  Trained saved(AdamW(), 2);
  const Value state = saved.state();
  Trained live{AdamW()};
  live.load(with_option(state, "params", List{"1.bias", "0.bias", "1.weight", "0.weight"}));
  EXPECT_EQ(live.state(), state);
}

TEST(OptimizerStateDictTest, TakesEveryFormOfNumbers) {
  Trained saved(AdamW(), 2);
  const Value state = frozen(saved.state());
  Value changed = with_option(state, "lr", view_of(torch::tensor(0.5, at::kDouble)));
  changed = with_option(changed, "betas", List{0.9, view_of(torch::tensor(0.75, at::kDouble))});
  changed = with_option(changed, "weight_decay", 0);
  Dict& states = changed.mutable_dict()["state"].mutable_dict();
  states["0.weight"].mutable_dict().set("step", 2);
  states["0.bias"].mutable_dict().set("step", 2.0);
  states["1.weight"].mutable_dict().set("step", view_of(torch::tensor({2}, at::kLong)));
  Trained live{AdamW()};
  live.load(changed);
  EXPECT_EQ(live.state().at("state"), state.at("state"));
  EXPECT_THAT(learning_rates(*live.optimizer), ElementsAre(0.5));
  EXPECT_EQ(group_of(live.state()).at("lr"), group_of(changed).at("lr"));
  EXPECT_EQ(group_of(live.state()).at("betas"), group_of(changed).at("betas"));
}

TEST(OptimizerStateDictTest, GroupsMayLackPythonOnlyOptions) {
  Trained saved(AdamW(), 1);
  const Value state = saved.state();
  Dict group = group_of(state).as_dict();
  for (const char* key : {"foreach", "maximize", "capturable", "differentiable", "fused"}) {
    group.erase(key);
  }
  Dict old = state.as_dict();
  old.set("param_groups", List{group});
  Trained live{AdamW()};
  live.load(old);
  EXPECT_EQ(live.state(), state);
}

// PyTorch 1.7 to 1.11 has numbers where newer versions have tensors, and fewer options.
TEST(OptimizerStateDictTest, TakesTheLayoutsOfOlderPyTorch) {
  const auto as_old = [](const Value& state, const std::vector<std::string>& numbers) {
    const auto number = [](const Value& tensor) {
      return tensor_of(tensor.as_tensor()).item<double>();
    };
    Dict states;
    for (const auto& [name, entry] : state.at("state").as_dict()) {
      Dict old = entry.as_dict();
      for (const std::string& key : numbers)
        old.set(key, number(entry.at(key)));
      old.set("step", static_cast<std::int64_t>(number(entry.at("step"))));
      states.set(name, old);
    }
    Dict group = group_of(state).as_dict();
    for (const char* key :
         {"foreach", "maximize", "capturable", "differentiable", "decoupled_weight_decay"}) {
      group.erase(key);
    }
    return Value(Dict{{"state", states}, {"param_groups", List{group}}});
  };
  const auto expect_taken = [&](const OptimizerRecipe& recipe,
                                const std::vector<std::string>& numbers) {
    const Value state = frozen(Trained(recipe, 2).state());
    Trained live(recipe);
    live.load(as_old(state, numbers));
    EXPECT_EQ(live.state(), state);
  };
  expect_taken(ASGD({.t0 = 1}), {"eta", "mu"});
  expect_taken(NAdam(), {"mu_product"});
  expect_taken(RAdam(), {});
  expect_taken(Adadelta(), {});
  expect_taken(Adamax(), {});
  expect_taken(Rprop(), {});
}

TEST(OptimizerStateDictTest, KeepsPythonOnlyOptionsAndUnknownOnesOfAFile) {
  Trained saved(AdamW(), 1);
  Value state = with_option(saved.state(), "fused", true);
  state = with_option(state, "decoupled_weight_decay", true);
  state = with_option(state, "name", "backbone");
  Trained live{AdamW()};
  live.load(state);
  EXPECT_EQ(live.state(), state);
  EXPECT_EQ(keys(group_of(live.state())).back(), "params");
}

TEST(OptimizerStateDictTest, UnknownTensorsOfAFileTakeWhatTheyTakeThere) {
  Trained trained(SGD({.lr = 0.1}));
  const Value state = trained.state();
  Dict group = group_of(state).as_dict();
  TensorView spread = view_of(torch::ones({1}));
  spread.shape = {std::int64_t{1} << 40};
  spread.strides = {0};
  group.set("unknown", spread);
  trained.load(Dict{{"state", state.at("state")}, {"param_groups", List{group}}});
  const Value kept = group_of(trained.state()).at("unknown");
  EXPECT_EQ(kept.as_tensor().shape, spread.shape);
  EXPECT_EQ(kept.as_tensor().storage->size(), sizeof(float));
  EXPECT_NE(kept.as_tensor().storage, spread.storage) << "a copy: it does not hold the file";
}

TEST(OptimizerStateDictTest, RefusesOptionsUnderWhichPyTorchTrainsDifferently) {
  Trained adamw(AdamW(), 1);
  const Value before = frozen(adamw.state());
  EXPECT_THROW(adamw.load(with_option(before, "maximize", true)), UnsupportedError);
  EXPECT_THROW(adamw.load(with_option(before, "decoupled_weight_decay", false)), UnsupportedError);
  EXPECT_EQ(adamw.state(), before);
  torch::nn::Linear net(1, 1);  // libtorch's own Adam ignores the flag; cairn's implements it
  torch::optim::Adam adam(net->parameters());
  const Value state = optimizer_state_dict(adam, *net);
  EXPECT_THROW(
      load_optimizer_state_dict(adam, *net, with_option(state, "decoupled_weight_decay", true)),
      UnsupportedError);
}

// A state that Adam(decoupled_weight_decay=True) of PyTorch 2.7 saved continues like AdamW.
TEST(OptimizerStateDictTest, AdamFollowsDecoupledWeightDecayOfAFile) {
  Trained adam(Adam({.weight_decay = 0.5, .decoupled_weight_decay = true}), 2);
  EXPECT_TRUE(group_of(adam.state()).at("decoupled_weight_decay").as_bool());
  Trained plain(Adam({.weight_decay = 0.5}), 2);
  EXPECT_EQ(group_of(plain.state()).find("decoupled_weight_decay"), nullptr);
  Trained adamw(AdamW({.weight_decay = 0.5}), 2);
  const Value saved = frozen(adamw.state());
  plain.load(with_option(adam.state(), "lr", 1e-3));
  for (std::size_t i = 0; i < adam.weights().size(); ++i) {
    EXPECT_TRUE(adam.weights()[i].equal(adamw.weights()[i])) << i;
  }
  EXPECT_TRUE(group_of(plain.state()).at("decoupled_weight_decay").as_bool());
  EXPECT_THAT(refusal(Adam(), with_option(plain.state(), "decoupled_weight_decay", 1)),
              HasSubstr("\"decoupled_weight_decay\" must be a bool"));
}

TEST(OptimizerStateDictTest, NumbersKeepTheFormThatAFileHadWhileTheyAreTheSame) {
  Trained saved(Adam(), 1);
  Value state = with_option(saved.state(), "lr", view_of(torch::tensor(0.5F)));
  state = with_option(state, "weight_decay", 0.0);  // Adam(weight_decay=0.0) of Python
  state = with_option(state, "eps", 1);
  state = with_option(state, "betas", List{0, 0.5});
  state = with_option(state, "initial_lr", view_of(torch::tensor(0.5F)));
  Trained live{Adam()};
  live.load(state);
  const Value group = group_of(live.state());
  EXPECT_TRUE(group.at("lr").is_tensor());
  EXPECT_TRUE(group.at("initial_lr").is_tensor());
  EXPECT_EQ(group.at("weight_decay").kind(), Kind::kFloat);
  EXPECT_EQ(group.at("eps").kind(), Kind::kInt);
  EXPECT_TRUE(group.at("betas").is_list());
  EXPECT_EQ(group.at("betas").as_items()[0].kind(), Kind::kInt);
  EXPECT_EQ(group_of(Trained(Adam()).state()).at("weight_decay").kind(), Kind::kInt);

  set_learning_rates(*live.optimizer, {0.1});  // float32 cannot hold this number
  const TensorView lr = group_of(live.state()).at("lr").as_tensor();
  EXPECT_EQ(lr.dtype, DType::kFloat64);
  EXPECT_EQ(tensor_of(lr).item<double>(), 0.1);
}

TEST(OptimizerStateDictTest, FrozenParametersHaveNoStateBeforeAndAfter) {
  Trained saved{AdamW()};
  saved.net->parameters()[1].set_requires_grad(false);
  saved.step();
  const Value state = frozen(saved.state());
  EXPECT_THAT(keys(state.at("state")), ElementsAre("0.weight", "1.weight", "1.bias"));
  Trained live(AdamW(), 1);
  live.load(state);
  EXPECT_EQ(live.state(), state);
}

TEST(OptimizerStateDictTest, StatesTakeTheParametersDtype) {
  Trained saved(AdamW(), 1);
  Trained live{AdamW()};
  live.net->to(at::kDouble);
  live.load(saved.state());
  const Value state = live.state().at("state").at("0.bias");
  EXPECT_EQ(state.at("exp_avg").as_tensor().dtype, DType::kFloat64);
  EXPECT_EQ(state.at("step").as_tensor().dtype, DType::kFloat32);
}

TEST(OptimizerStateDictTest, TiedParametersHaveOneEntryUnderTheFirstName) {
  struct Tied : torch::nn::Module {
    at::Tensor first = register_parameter("first", torch::ones({2}));
    at::Tensor second = register_parameter("second", first);
  } net;
  const auto optimizer = SGD({.momentum = 0.9}).create({net.first});
  net.first.sum().backward();
  optimizer->step();
  EXPECT_THAT(keys(optimizer_state_dict(*optimizer, net).at("state")), ElementsAre("first"));
}

TEST(OptimizerStateDictTest, ForeignParametersAreAUsageError) {
  Trained trained{SGD()};
  const torch::nn::Linear other(3, 2);
  EXPECT_THROW(optimizer_state_dict(*trained.optimizer, *other), UsageError);
}

// --- What does not fit
// ----------------------------------------------------------------------------

TEST(OptimizerMisfitTest, ListsEverythingThatDoesNotFit) {
  Value state = frozen(Trained(AdamW(), 1).state());
  Dict& states = state.mutable_dict()["state"].mutable_dict();
  states["0.weight"].mutable_dict().set("exp_avg", view_of(torch::zeros({5})));
  states["0.bias"].mutable_dict().erase("exp_avg_sq");
  states["1.bias"].mutable_dict().set("step", "three");
  states.set("9.bias", Dict{});
  state = with_option(state, "lr", "fast");
  EXPECT_THAT(refusal(AdamW(), state),
              AllOf(HasSubstr("\"0.weight\": \"exp_avg\" has shape [5], its parameter has [2, 3]"),
                    HasSubstr("\"0.bias\": \"exp_avg_sq\" is missing"),
                    HasSubstr("\"1.bias\": \"step\" must be a whole number"),
                    HasSubstr("state of \"9.bias\", which is in no parameter group"),
                    HasSubstr("param_groups/0: \"lr\" must be a number, found str")));
}

TEST(OptimizerMisfitTest, NamesThatAreNotTheModels) {
  const Value state = Trained(AdamW(), 1).state();
  const std::string message = refusal(
      AdamW(), with_option(state, "params", List{"0.weight", "0.bias", "1.weight", "head.bias"}));
  EXPECT_THAT(message,
              AllOf(HasSubstr("\"1.bias\" is not among the saved parameters of group 0"),
                    HasSubstr("saved parameter \"head.bias\" is not in the optimizer's group 0")));
}

TEST(OptimizerMisfitTest, AnotherNumberOfParametersOrGroups) {
  const Value state = Trained(AdamW(), 1).state();
  EXPECT_THAT(refusal(AdamW(), with_option(state, "params", List{0, 1})),
              HasSubstr("saved with 2 parameters, the optimizer's has 4"));
  Dict two = state.as_dict();
  two.set("param_groups", List{group_of(state), group_of(state)});
  EXPECT_THAT(refusal(AdamW(), two), HasSubstr("2 parameter groups were saved"));
}

// PyTorch's and cairn's sharded folders keep no empty dicts.
TEST(OptimizerMisfitTest, AnOptimizerWithoutStateNeedsNone) {
  Dict without = Trained(SGD({.lr = 0.25}), 1).state().as_dict();
  ASSERT_EQ(without.find("state")->as_dict().size(), 0U);
  without.erase("state");
  Trained live(SGD(), 2);
  live.load(without);
  EXPECT_EQ(group_of(live.state()).at("lr"), Value(0.25));
}

TEST(OptimizerMisfitTest, ThingsThatAreNoOptimizerState) {
  EXPECT_THAT(refusal(SGD(), None{}), HasSubstr("is a dict with a dict \"state\""));
  EXPECT_THAT(refusal(SGD(), Dict{{"state", List{}}}), HasSubstr("is a dict with a dict"));
  EXPECT_THAT(refusal(SGD(), Dict{{"state", Dict{}}, {"param_groups", List{1}}}),
              HasSubstr("param_groups/0 is a int, not a dict"));
  EXPECT_THAT(refusal(SGD(), Dict{{"state", Dict{}}, {"param_groups", List{Dict{}}}}),
              HasSubstr("param_groups/0: \"lr\" is missing"));
}

}  // namespace
}  // namespace cairn
