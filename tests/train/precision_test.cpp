// Autocast to bfloat16 on the CPU: forward, evaluation and prediction; and where it is refused. The
// settings of the process for a GPU's arithmetic.

#include "train/loop/precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/optim/optimizers.h"
#include "cairn/train/trainer.h"

#include "testing/message_of.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using testing::CallAt;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::tiny_loader;

// Linear layers in float32, since autocast leaves float64 alone.
TrainerOptions float32_options(const char* precision) {
  torch::manual_seed(1);
  TrainerOptions options = testing::tiny_options();
  torch::nn::Sequential net(torch::nn::Linear(4, 16), torch::nn::Tanh(), torch::nn::Linear(16, 3));
  net->to(at::kFloat);
  options.model = classifier(net);
  DataSpec data{.dataloader = tiny_loader(16, {.batch_size = 8})};
  data.microbatch_transforms = [](const Batch& batch) {
    return batch.map([](const at::Tensor& tensor) {
      return tensor.is_floating_point() ? tensor.to(at::kFloat) : tensor;
    });
  };
  options.train_dataloader = data;
  options.eval_dataloader = data;
  options.optimizers = AdamW({.lr = 1e-2});
  options.max_duration = "20ep";
  options.precision = precision;
  return options;
}

struct Seen {
  at::ScalarType output = at::kDouble;
  at::ScalarType gradient = at::kDouble;
  std::vector<double> losses;
};

// Trains with `precision`. Returns the weights.
at::Tensor train_with(const char* precision, Seen& seen) {
  TrainerOptions options = float32_options(precision);
  options.callbacks = {
      CallAt(Event::kAfterForward,
             [&](State& state) { seen.output = state.outputs[0].scalar_type(); }),
      CallAt(Event::kAfterBackward,
             [&](State& state) {
               seen.gradient = state.model->module().parameters()[0].grad().scalar_type();
             }),
      CallAt(Event::kBatchEnd, [&](State& state) {
        seen.losses.push_back(state.total_loss_dict.at("loss/train/total").as_float());
      })};
  Trainer trainer(std::move(options));
  trainer.fit();
  return testing::weights_of(*trainer.state().model).clone();
}

TEST(CpuBfloat16, TrainsFloat32WeightsWithHalvedActivations) {
  if (!cpu_has_bfloat16()) GTEST_SKIP() << "oneDNN has no bfloat16 on this processor";
  Seen halved;
  Seen whole;
  const at::Tensor weights = train_with("amp_bf16", halved);
  const at::Tensor exact = train_with("fp32", whole);
  EXPECT_EQ(halved.output, at::kBFloat16);
  EXPECT_EQ(halved.gradient, at::kFloat);
  EXPECT_EQ(whole.output, at::kFloat);
  EXPECT_EQ(weights.scalar_type(), at::kFloat);
  EXPECT_FALSE(at::equal(weights, exact));
  EXPECT_TRUE(at::allclose(weights, exact, /*rtol=*/0.1, /*atol=*/0.05));
  EXPECT_LT(halved.losses.back(), 0.9 * halved.losses.front());
  // The weights' casts of one batch are not used in the next.
  EXPECT_NEAR(halved.losses.back(), whole.losses.back(), 0.02);
}

TEST(CpuBfloat16, EvaluatesAndPredictsAlike) {
  if (!cpu_has_bfloat16()) GTEST_SKIP() << "oneDNN has no bfloat16 on this processor";
  TrainerOptions options = float32_options("amp_bf16");
  at::ScalarType evaluated = at::kDouble;
  options.callbacks = {CallAt(Event::kEvalAfterForward,
                              [&](State& state) { evaluated = state.outputs[0].scalar_type(); })};
  const DataSpec data = options.train_dataloader;
  Trainer trainer(std::move(options));
  trainer.eval();
  EXPECT_EQ(evaluated, at::kBFloat16);
  EXPECT_EQ(trainer.predict(data).at(0)[0].scalar_type(), at::kBFloat16);
}

TEST(CpuBfloat16, LeavesAutocastAsItWas) {
  const at::Tensor one = at::ones({1, 1});
  {
    const AutocastGuard outer(Precision::kAmpBf16, at::kCPU);
    { const AutocastGuard inner(Precision::kAmpBf16, at::kCPU); }
    EXPECT_EQ(at::mm(one, one).scalar_type(), at::kBFloat16);
  }
  EXPECT_EQ(at::mm(one, one).scalar_type(), at::kFloat);
  const AutocastGuard of_gpu(Precision::kAmpBf16, at::kCUDA);
  EXPECT_EQ(at::mm(one, one).scalar_type(), at::kFloat);
}

TEST(CpuBfloat16, IsRefusedWhereOneDnnHasNone) {
  const std::string problem = cpu_precision_problem(Precision::kAmpBf16, /*has_bfloat16=*/false);
  EXPECT_THAT(problem, HasSubstr("precision amp_bf16 on device cpu needs a processor"));
  EXPECT_THAT(problem, HasSubstr("use fp32"));
  EXPECT_EQ(cpu_precision_problem(Precision::kAmpBf16, /*has_bfloat16=*/true), "");
  EXPECT_EQ(cpu_precision_problem(Precision::kFp32, /*has_bfloat16=*/false), "");
  EXPECT_THAT(cpu_precision_problem(Precision::kAmpFp16, /*has_bfloat16=*/true),
              HasSubstr("precision amp_fp16 needs device gpu"));
}

// The Trainer asks this machine's processor.
TEST(CpuBfloat16, TheTrainerRefusesExactlyThen) {
  TrainerOptions options = testing::tiny_options();
  options.device = "cpu";
  options.precision = "amp_bf16";
  const std::string message = testing::message_of<UsageError>([&] { resolve(options); });
  if (cpu_has_bfloat16()) {
    EXPECT_THAT(message, Not(HasSubstr("precision")));
  } else {
    EXPECT_THAT(message, HasSubstr("precision amp_bf16 on device cpu"));
  }
}

// --- TF32, and cuDNN's benchmark mode ------------------------------------------------------------

// Restores the settings of the process, which need no GPU.
class GpuArithmetic : public ::testing::Test {
 protected:
  ~GpuArithmetic() override {
    at::globalContext().setAllowTF32CuBLAS(matmul_);
    at::globalContext().setAllowTF32CuDNN(cudnn_);
    at::globalContext().setBenchmarkCuDNN(benchmark_);
  }

 private:
  const bool matmul_ = at::globalContext().allowTF32CuBLAS();
  const bool cudnn_ = at::globalContext().allowTF32CuDNN();
  const bool benchmark_ = at::globalContext().benchmarkCuDNN();
};

TEST_F(GpuArithmetic, IsSetAtConstruction) {
  for (const bool allowed : {true, false}) {
    TrainerOptions options = testing::tiny_options();
    options.allow_tf32 = allowed;
    options.cudnn_benchmark = allowed;
    { const Trainer trainer(std::move(options)); }
    EXPECT_EQ(at::globalContext().allowTF32CuBLAS(), allowed);
    EXPECT_EQ(at::globalContext().allowTF32CuDNN(), allowed);
    EXPECT_TRUE(at::globalContext().benchmarkCuDNN());  // false leaves it alone.
  }
}

TEST_F(GpuArithmetic, StaysWithoutTheOptions) {
  for (const bool before : {true, false}) {
    at::globalContext().setAllowTF32CuBLAS(before);
    at::globalContext().setAllowTF32CuDNN(!before);
    at::globalContext().setBenchmarkCuDNN(before);
    const Trainer trainer(testing::tiny_options());
    EXPECT_EQ(at::globalContext().allowTF32CuBLAS(), before);
    EXPECT_EQ(at::globalContext().allowTF32CuDNN(), !before);
    EXPECT_EQ(at::globalContext().benchmarkCuDNN(), before);
  }
}

}  // namespace
}  // namespace cairn
