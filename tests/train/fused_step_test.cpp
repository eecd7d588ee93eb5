// Steps in one pass over the memory have the bits of the steps by ATen's operators.
#include "train/fused/fused_step.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cairn/optim/optimizers.h"
#include "cairn/train/optimizer_layout.h"
#include "cairn/train/state_dict.h"

#include "testing/optimizer_cases.h"
#include "train/fused/rounding.h"

namespace cairn {
namespace {

// One element, fewer and more than a vector has, no multiples of that, enough for several threads.
const std::vector<std::vector<std::int64_t>> kShapes = {{1}, {7}, {3, 21}, {1000}, {257, 301}};
constexpr int kSteps = 7;

std::vector<at::ScalarType> types_with_kernels() {
  std::vector<at::ScalarType> types = {at::kFloat, at::kDouble};
  // Newer libtorches do not round each scalar to bfloat16.
  if (TORCH_VERSION_MAJOR < 2) types.push_back(at::kBFloat16);
  return types;
}

class Threads {
 public:
  explicit Threads(int count) { at::set_num_threads(count); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads() { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

testing::OptimizerCases fused_cases() {
  testing::OptimizerCases cases;
  const auto add = testing::adder(cases);
  add("SGD", SGD({.lr = 0.1}));
  add("SGD_decay", SGD({.lr = 0.1, .weight_decay = 0.1}));
  add("SGD_momentum", SGD({.lr = 0.1, .momentum = 0.9, .dampening = 0.2, .weight_decay = 0.1}));
  add("SGD_nesterov", SGD({.lr = 0.1, .momentum = 0.9, .nesterov = true}));
  add("Adam", Adam());
  add("Adam_options", Adam({.lr = 0.1, .betas = {0.8, 0.9}, .weight_decay = 0.1, .amsgrad = true}));
  add("Adam_small_beta", Adam({.lr = 0.1, .betas = {0.3, 0.9}}));
  add("Adam_decoupled", Adam({.lr = 0.1, .weight_decay = 0.1, .decoupled_weight_decay = true}));
  add("AdamW", AdamW());
  add("AdamW_amsgrad", AdamW({.lr = 0.1, .weight_decay = 0.1, .amsgrad = true}));
  add("DecoupledAdamW", DecoupledAdamW());
  add("DecoupledAdamW_options", DecoupledAdamW({.lr = 0.1, .weight_decay = 0.01, .amsgrad = true}));
  add("DecoupledSGDW", DecoupledSGDW({.lr = 0.1}));
  add("DecoupledSGDW_nesterov",
      DecoupledSGDW({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}));
  add("DecoupledSGDW_dampening", DecoupledSGDW({.lr = 0.1, .momentum = 0.9, .dampening = 0.1}));
  add("RMSprop", RMSprop());
  add("RMSprop_centered", RMSprop({.lr = 0.1, .centered = true}));
  add("RMSprop_options",
      RMSprop({.lr = 0.1, .alpha = 0.9, .weight_decay = 0.1, .momentum = 0.5, .centered = true}));
  add("Adagrad", Adagrad());
  add("Adagrad_options",
      Adagrad({.lr = 0.1, .lr_decay = 0.1, .weight_decay = 0.1, .initial_accumulator_value = 0.5}));
  add("NAdam", NAdam());
  add("NAdam_options", NAdam({.lr = 0.1, .betas = {0.8, 0.9}, .weight_decay = 0.1}));
  add("NAdam_decoupled", NAdam({.lr = 0.1, .weight_decay = 0.1, .decoupled_weight_decay = true}));
  add("RAdam", RAdam());
  add("RAdam_options", RAdam({.lr = 0.1, .betas = {0.8, 0.5}, .weight_decay = 0.1}));
  add("RAdam_decoupled", RAdam({.lr = 0.1, .weight_decay = 0.1, .decoupled_weight_decay = true}));
  return cases;
}

// Counts the calls of the operators that read tensors and write tensors.
class OperatorCount {
 public:
  OperatorCount() {
    calls() = 0;
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(&note).scopes({at::RecordScope::FUNCTION}));
  }
  OperatorCount(const OperatorCount&) = delete;
  OperatorCount& operator=(const OperatorCount&) = delete;
  ~OperatorCount() { at::removeCallback(handle_); }
  static int& calls() {
    static thread_local int count = 0;
    return count;
  }

 private:
  static std::unique_ptr<at::ObserverContext> note(const at::RecordFunction& call) {
    static const std::set<std::string> kNames = {"aten::add_", "aten::addcdiv_", "aten::addcmul_",
                                                 "aten::lerp_", "aten::sub_"};
    calls() += kNames.contains(call.name()) ? 1 : 0;
    return nullptr;
  }
  at::CallbackHandle handle_ = 0;
};

struct FixedGradients {
  // `is_negated`: gradients are views of negative gradients, which no kernel takes.
  FixedGradients(const testing::OptimizerCase& made, at::ScalarType type, bool is_negated)
      : is_negated_(is_negated) {
    for (std::size_t i = 0; i < kShapes.size(); ++i) {
      // So small that also a small step changes numbers of bfloat16.
      parameters.push_back(numbers(i, 0).div(100).to(type).set_requires_grad(true));
    }
    optimizer = made.recipe->create(parameters);
  }

  // Returns the number of operators.
  int step(int k) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      at::Tensor gradient = numbers(i, k + 1).to(parameters[i].scalar_type());
      if (is_negated_) gradient = at::_neg_view(gradient.neg());
      parameters[i].mutable_grad() = gradient;
    }
    const OperatorCount count;
    optimizer->step();
    return OperatorCount::calls();
  }

  std::vector<at::Tensor> parameters;
  std::shared_ptr<torch::optim::Optimizer> optimizer;

 private:
  static at::Tensor numbers(std::size_t parameter, int step) {
    at::Generator generator =
        at::make_generator<at::CPUGeneratorImpl>(100 * parameter + static_cast<std::size_t>(step));
    return at::randn(kShapes[parameter], generator, at::kDouble);
  }
  bool is_negated_;
};

class FusedStepTest
    : public ::testing::TestWithParam<std::tuple<testing::OptimizerCase, at::ScalarType>> {};
INSTANTIATE_TEST_SUITE_P(All, FusedStepTest,
                         ::testing::Combine(::testing::ValuesIn(fused_cases()),
                                            ::testing::ValuesIn(types_with_kernels())),
                         [](const auto& made) {
                           return std::get<0>(made.param).name + "_" +
                                  at::toString(std::get<1>(made.param));
                         });

TEST_P(FusedStepTest, HasTheBitsOfTheOperators) {
  const auto& [made, type] = GetParam();
  ASSERT_NE(fused::rounding_of(type), fused::Rounding::kUnknown);
  for (const int threads : {1, 3}) {
    SCOPED_TRACE(threads);
    const Threads limit(threads);
    FixedGradients fused(made, type, /*is_negated=*/false);
    FixedGradients by_operators(made, type, /*is_negated=*/true);
    for (int k = 0; k < kSteps; ++k) {
      const int fewer = fused.step(k);
      EXPECT_GE(by_operators.step(k), static_cast<int>(kShapes.size()));
      // SGD's first step copies the gradients.
      if (k > 0) {
        EXPECT_EQ(fewer, 0);
      }
      for (std::size_t i = 0; i < kShapes.size(); ++i) {
        EXPECT_TRUE(fused.parameters[i].equal(by_operators.parameters[i]))
            << "step " << k << ", " << i;
      }
    }
  }
}

// A module whose optimizer has the option `fused`.
template <class Recipe>
struct OptionRun {
  explicit OptionRun(bool fused) : net(torch::nn::Linear(5, 3)) {
    const torch::NoGradGuard no_grad;
    for (const at::Tensor& parameter : net->parameters())
      parameter.copy_(at::arange(parameter.numel(), at::kFloat).view(parameter.sizes()));
    optimizer = Recipe({.lr = 0.1, .weight_decay = 0.1, .fused = fused}).create(net->parameters());
  }
  // Returns the number of operators.
  int step() {
    for (const at::Tensor& parameter : net->parameters())
      parameter.mutable_grad() = at::full_like(parameter, 0.3);
    const OperatorCount count;
    optimizer->step();
    return OperatorCount::calls();
  }
  Value state() const { return optimizer_state_dict(*optimizer, *net); }

  torch::nn::Linear net;
  std::shared_ptr<torch::optim::Optimizer> optimizer;
};

template <class Recipe>
void expect_option_for_this_process_only() {
  OptionRun<Recipe> fused(true);
  OptionRun<Recipe> by_operators(false);
  for (int k = 0; k < 2; ++k) {
    EXPECT_EQ(fused.step(), 0);
    EXPECT_GE(by_operators.step(), 2);
    EXPECT_EQ(fused.state(), by_operators.state());
  }
  load_optimizer_state_dict(*by_operators.optimizer, *by_operators.net, fused.state());
  EXPECT_GE(by_operators.step(), 2);
}

TEST(FusedOptionTest, IsNoPartOfACheckpoint) {
  expect_option_for_this_process_only<SGD>();
  expect_option_for_this_process_only<AdamW>();
  expect_option_for_this_process_only<RMSprop>();
  expect_option_for_this_process_only<Adagrad>();
  expect_option_for_this_process_only<NAdam>();
  expect_option_for_this_process_only<RAdam>();
  expect_option_for_this_process_only<DecoupledSGDW>();
  expect_option_for_this_process_only<DecoupledAdamW>();
}

TEST(MixedStepTest, TakesWhatNoKernelFitsByOperators) {
  const at::Tensor dense = at::ones({4}).set_requires_grad(true);
  const at::Tensor half = at::ones({4}, at::kHalf).set_requires_grad(true);
  const at::Tensor empty = at::ones({0}).set_requires_grad(true);
  const at::Tensor without_gradient = at::ones({4}).set_requires_grad(true);
  for (const at::Tensor& each : {dense, half, empty})
    each.mutable_grad() = at::ones_like(each);
  const auto optimizer = SGD({.lr = 0.5}).create({dense, half, empty, without_gradient});
  optimizer->step();
  EXPECT_TRUE(dense.equal(at::full({4}, 0.5)));
  EXPECT_TRUE(half.equal(at::full({4}, 0.5, at::kHalf)));
  EXPECT_TRUE(without_gradient.equal(at::ones({4})));
}

TEST(AverageTest, HasTheBitsOfTheOperators) {
  for (const at::ScalarType type : types_with_kernels()) {
    const at::Tensor now = at::randn({4099}, type);
    const at::Tensor average = at::randn({4099}, type);
    const at::Tensor expected = average.clone().mul_(0.99).add_(now, 1 - 0.99);
    ASSERT_TRUE(fused::can_fuse(average, now, {}));
    fused::FusedStep<fused::Average> fused;
    fused.add({.smoothing = 0.99}, average, now, {});
    fused.run();
    EXPECT_TRUE(average.equal(expected));
  }
}

at::Tensor with_infinities(at::ScalarType type) {
  const at::Tensor made = at::randn({4099}, type);
  made[7] = std::numeric_limits<double>::quiet_NaN();
  made[4097] = std::numeric_limits<double>::quiet_NaN();
  made[4098] = std::numeric_limits<double>::infinity();
  made[4000] = -std::numeric_limits<double>::infinity();
  return made;
}

bool have_same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() && std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
}

TEST(AloneStepTest, HasTheBitsOfTheOperator) {
  for (const at::ScalarType type : types_with_kernels()) {
    const at::Tensor scaled = with_infinities(type);
    const at::Tensor clamped = scaled.clone();
    const at::Tensor expected_scaled = scaled.mul(0.3);
    const at::Tensor expected_clamped = scaled.clamp(-0.7, 0.7);
    fused::FusedStep<fused::Scale> scale;
    scale.add({.factor = 0.3}, scaled, {}, {});
    scale.run();
    EXPECT_TRUE(have_same_bits(scaled, expected_scaled));
    fused::FusedStep<fused::Clamp> clamp;
    clamp.add({.limit = 0.7}, clamped, {}, {});
    clamp.run();
    EXPECT_TRUE(have_same_bits(clamped, expected_clamped));
  }
}

TEST(RoundingTest, DrawsNoRandomNumbers) {
  const at::Tensor before = at::detail::getDefaultCPUGenerator().get_state();
  fused::rounding_of(at::kFloat);
  fused::rounding_of(at::kBFloat16);
  EXPECT_TRUE(before.equal(at::detail::getDefaultCPUGenerator().get_state()));
  EXPECT_EQ(fused::rounding_of(at::kHalf), fused::Rounding::kUnknown);
}

TEST(RoundingTest, IsToldOnlyWhenStepsAreSlower) {
  EXPECT_EQ(fused::rounding_problem(at::kFloat, fused::Rounding::kOnce), "");
  EXPECT_EQ(fused::rounding_problem(at::kFloat, fused::Rounding::kTwice), "");
  EXPECT_THAT(fused::rounding_problem(at::kBFloat16, fused::Rounding::kUnknown),
              ::testing::HasSubstr("parameters of BFloat16"));
}

TEST(PartsTest, AreTheWholeTensor) {
  for (const at::ScalarType type : types_with_kernels()) {
    for (const std::int64_t count : {0, 1, 64, 95, 32768, 32769, 200003}) {
      std::int64_t size = 0;
      for (const fused::Part& part : fused::parts_of(type, count))
        size += part.size;
      EXPECT_EQ(size, count);
    }
  }
}

}  // namespace
}  // namespace cairn
