// Optimizers, clipping and unscaling on a device take the parameters as lists of tensors: a few
// operators, however many parameters there are. The simulated device has such operators while a
// SimLists lives. The CUDA device has its own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/algorithms/gradient_clipping.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/logger.h"
#include "cairn/train/model.h"
#include "cairn/train/scaler.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "testing/operator_count.h"
#include "testing/optimizer_cases.h"
#include "testing/sim_device.h"
#include "train/fused/list_step.h"

namespace cairn {
namespace {

constexpr std::size_t kParameters = 150;
constexpr int kMostCalls = 15;
// NAdam multiplies a number for each parameter on the CPU, and reads it.
constexpr int kCallsOfNadamOnCpu = 2 * kParameters;
constexpr int kSteps = 4;

at::Tensor numbers_of(std::size_t parameter, int step) {
  const auto count = static_cast<std::int64_t>(1 + parameter % 7);
  return (at::arange(1, count + 1, at::kFloat) * (1.0 + 0.1 * static_cast<double>(parameter)) +
          step)
      .sin_();
}

// Parameters on a device with an optimizer.
struct ListRun {
  ListRun(const OptimizerRecipe& recipe, c10::Device device) {
    for (std::size_t i = 0; i < kParameters; ++i) {
      parameters.push_back(numbers_of(i, 0).to(device).set_requires_grad(true));
    }
    optimizer = recipe.create(parameters);
  }
  // Returns the number of operators that the step called.
  int step(int k) {
    for (std::size_t i = 0; i < kParameters; ++i) {
      parameters[i].mutable_grad() = numbers_of(i, k + 1).to(parameters[i].device());
    }
    const testing::OperatorCount count;
    optimizer->step();
    return count.calls();
  }
  void expect_close(const ListRun& other) const {
    for (std::size_t i = 0; i < kParameters; ++i) {
      EXPECT_TRUE(at::allclose(parameters[i].cpu(), other.parameters[i].cpu(), 1e-4, 1e-6)) << i;
    }
  }

  std::vector<at::Tensor> parameters;
  std::shared_ptr<torch::optim::Optimizer> optimizer;
};

class DeviceListsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (is_cuda() && !torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    device = is_cuda() ? c10::Device(c10::kCUDA, 0) : testing::sim_device();
    if (is_cuda()) return;
    testing::let_sim_device_compute();
    lists.emplace(/*fused=*/std::string(GetParam()) == "Fused");
  }
  static bool is_cuda() { return std::string(GetParam()) == "Cuda"; }

  c10::Device device = c10::kCPU;
  std::optional<testing::SimLists> lists;
};

INSTANTIATE_TEST_SUITE_P(Devices, DeviceListsTest, ::testing::Values("Lists", "Fused", "Cuda"),
                         [](const auto& test) { return test.param; });

testing::OptimizerCases list_cases() {
  testing::OptimizerCases cases;
  const auto add = testing::adder(cases);
  add("SGD", SGD({.lr = 0.1}));
  add("SGD_momentum", SGD({.lr = 0.1, .momentum = 0.9, .dampening = 0.2, .weight_decay = 0.1}));
  add("SGD_nesterov", SGD({.lr = 0.1, .momentum = 0.9, .nesterov = true}));
  add("Adam", Adam({.lr = 0.1, .betas = {0.8, 0.9}, .weight_decay = 0.1, .amsgrad = true}));
  add("Adam_decoupled", Adam({.lr = 0.1, .weight_decay = 0.1, .decoupled_weight_decay = true}));
  add("AdamW", AdamW({.lr = 0.1, .weight_decay = 0.1}));
  add("DecoupledAdamW", DecoupledAdamW({.lr = 0.1, .weight_decay = 0.01, .amsgrad = true}));
  add("DecoupledSGDW", DecoupledSGDW({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01}));
  add("RMSprop", RMSprop());
  add("RMSprop_options",
      RMSprop({.lr = 0.1, .alpha = 0.9, .weight_decay = 0.1, .momentum = 0.5, .centered = true}));
  add("Adagrad", Adagrad({.lr = 0.1, .lr_decay = 0.1, .weight_decay = 0.1}));
  add("NAdam", NAdam({.lr = 0.1, .betas = {0.8, 0.9}, .weight_decay = 0.1}));
  add("RAdam", RAdam({.lr = 0.1, .betas = {0.8, 0.5}, .weight_decay = 0.1}));
  add("RAdam_decoupled", RAdam({.lr = 0.1, .weight_decay = 0.1, .decoupled_weight_decay = true}));
  return cases;
}

TEST_P(DeviceListsTest, StepsCallFewOperatorsAndComputeWhatTheCpuComputes) {
  for (const testing::OptimizerCase& made : list_cases()) {
    SCOPED_TRACE(made.name);
    ListRun on_device(*made.recipe, device);
    ListRun on_cpu(*made.recipe, c10::kCPU);
    for (int k = 0; k < kSteps; ++k) {
      on_cpu.step(k);
      const int calls = on_device.step(k);
      const int on_cpu_anyway = made.name.starts_with("NAdam") ? kCallsOfNadamOnCpu : 0;
      // The first step makes the states.
      if (k > 0) {
        EXPECT_LE(calls - on_cpu_anyway, kMostCalls);
        EXPECT_GE(calls, 1);
      }
      on_device.expect_close(on_cpu);
    }
  }
}

TEST_P(DeviceListsTest, AnOptionTurnsThemOff) {
  const std::vector<std::shared_ptr<OptimizerRecipe>> recipes = {
      std::make_shared<SGD>(SGD({.lr = 0.1, .momentum = 0.9, .fused = false})),
      std::make_shared<AdamW>(AdamW({.fused = false})),
      std::make_shared<DecoupledAdamW>(DecoupledAdamW({.fused = false}))};
  for (const auto& recipe : recipes) {
    ListRun run(*recipe, device);
    run.step(0);
    EXPECT_GE(run.step(1), static_cast<int>(kParameters));
  }
}

// A parameter that got its first gradient later has made fewer steps.
TEST_P(DeviceListsTest, ParametersMayHaveMadeDifferentNumbersOfSteps) {
  ListRun on_device(AdamW({.lr = 0.1}), device);
  ListRun on_cpu(AdamW({.lr = 0.1}), c10::kCPU);
  for (ListRun* run : {&on_device, &on_cpu}) {
    run->parameters[3].mutable_grad() = numbers_of(3, 1).to(run->parameters[3].device());
    run->optimizer->step();
    run->step(1);
  }
  on_device.expect_close(on_cpu);
}

TEST_P(DeviceListsTest, TypesAreListsOfTheirOwn) {
  const auto make = [](c10::Device on) {
    std::vector<at::Tensor> made;
    for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kFloat, at::kBFloat16}) {
      made.push_back(at::ones({4}, type).to(on).set_requires_grad(true));
      made.back().mutable_grad() = at::full({4}, 0.5, type).to(on);
    }
    return made;
  };
  const std::vector<at::Tensor> on_device = make(device);
  const std::vector<at::Tensor> on_cpu = make(c10::kCPU);
  SGD({.lr = 0.5}).create(on_device)->step();
  SGD({.lr = 0.5}).create(on_cpu)->step();
  for (std::size_t i = 0; i < on_cpu.size(); ++i) {
    EXPECT_TRUE(on_device[i].cpu().equal(on_cpu[i])) << i;
  }
}

// Vectors, matrices and filters, with units of 1 to 7 elements.
constexpr int kUnitSizes = 7;
at::Tensor weight_of(std::size_t parameter, int step) {
  const at::Tensor numbers = numbers_of(parameter, step);
  if (parameter == 5 * static_cast<std::size_t>(step)) numbers.zero_();
  if (parameter % 3 == 0) return numbers;
  const at::Tensor rows = at::stack({numbers, numbers * -3, numbers.cos()});
  return parameter % 3 == 1 ? rows : rows.unsqueeze(-1);
}

struct ListModule : torch::nn::Module {
  explicit ListModule(c10::Device device) {
    for (std::size_t i = 0; i < kParameters; ++i) {
      const at::Tensor& made =
          register_parameter(testing::weight_name(i), weight_of(i, 0).to(device));
      made.mutable_grad() = weight_of(i, 1).to(device);
    }
  }
  at::Tensor forward(const at::Tensor& x) { return x; }
};

// Clips the gradients of a module on each device, and returns the number of operators on `device`.
int clip_on_both(const std::string& type, double threshold, c10::Device device) {
  int calls = 0;
  std::vector<std::shared_ptr<ListModule>> modules;
  for (const c10::Device on : {c10::Device(c10::kCPU), device}) {
    modules.push_back(std::make_shared<ListModule>(on));
    State state;
    state.model = classifier(modules.back());
    Logger logger(state);
    const testing::OperatorCount count;
    GradientClipping({.clipping_type = type, .clipping_threshold = threshold})
        .apply(Event::kAfterTrainBatch, state, logger);
    calls = count.calls();
  }
  for (std::size_t i = 0; i < kParameters; ++i) {
    EXPECT_TRUE(at::allclose(modules[0]->parameters()[i].grad(),
                             modules[1]->parameters()[i].grad().cpu(), 1e-4, 1e-6))
        << i;
  }
  return calls;
}

TEST_P(DeviceListsTest, ClippingByNormCallsFewOperators) {
  EXPECT_LE(clip_on_both("norm", 0.5, device), kMostCalls);
  EXPECT_LE(clip_on_both("norm", 1e6, device), kMostCalls);
}

TEST_P(DeviceListsTest, ClippingByValueComputesWhatTheCpuComputes) {
  EXPECT_GE(clip_on_both("value", 0.5, device), 1);
}

TEST_P(DeviceListsTest, AdaptiveClippingCallsFewOperatorsForEachSizeOfUnits) {
  for (const double threshold : {0.01, 0.8, 1e6}) {
    EXPECT_LE(clip_on_both("adaptive", threshold, device), kUnitSizes * kMostCalls);
  }
}

TEST_P(DeviceListsTest, UnscalingCallsFewOperatorsAndFindsInfinities) {
  for (const float bad : {0.0F, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    SCOPED_TRACE(bad);
    ListRun run(SGD({.lr = 1}), device);
    for (std::size_t i = 0; i < kParameters; ++i)
      run.parameters[i].mutable_grad() = numbers_of(i, 1).to(device);
    if (bad != 0) run.parameters[70].mutable_grad().fill_(bad);
    GradScaler scaler({.init_scale = 4});
    const testing::OperatorCount count;
    scaler.unscale_(*run.optimizer);
    EXPECT_LE(count.calls(), kMostCalls);
    EXPECT_TRUE(at::allclose(run.parameters[9].grad().cpu(), numbers_of(9, 1) / 4));
    scaler.step(*run.optimizer);
    EXPECT_EQ(run.parameters[9].cpu().equal(numbers_of(9, 0)), bad != 0);
  }
}

TEST_P(DeviceListsTest, TheLogSaysHowOptimizersStep) {
  EXPECT_THAT(fused::describe_steps(device), ::testing::HasSubstr("_foreach"));
  if (std::string(GetParam()) != "Lists") {
    EXPECT_THAT(fused::describe_steps(device), ::testing::HasSubstr("_fused_adam_"));
  }
  lists.reset();
  if (!is_cuda()) {
    EXPECT_THAT(fused::describe_steps(device), ::testing::HasSubstr("one after another"));
  }
  EXPECT_EQ(fused::describe_steps(c10::kCPU), "");
}

// The device has no operators for lists.
TEST(DeviceWithoutListsTest, ParametersAreSteppedOneAfterAnother) {
  testing::let_sim_device_compute();
  for (const testing::OptimizerCase& made : list_cases()) {
    SCOPED_TRACE(made.name);
    ListRun on_device(*made.recipe, testing::sim_device());
    ListRun on_cpu(*made.recipe, c10::kCPU);
    for (int k = 0; k < 2; ++k) {
      on_cpu.step(k);
      EXPECT_GE(on_device.step(k), static_cast<int>(kParameters));
    }
    on_device.expect_close(on_cpu);
  }
}

}  // namespace
}  // namespace cairn
