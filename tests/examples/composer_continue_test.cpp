// Composer began, cairn finishes: from each checkpoint of each run, the losses of the remaining
// batches and the final weights are those of the Python run.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <tuple>

#include <nlohmann/json.hpp>

#include "cairn/checkpoint/checkpoint.h"

#include "testing/child_process.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

constexpr double kTolerance = 1e-5;
constexpr int kNumBatches = 15;
const std::string kRuns = CAIRN_TEST_DATA "/composer-0.33";

struct Start {
  const char* checkpoint;
  int first_batch;
};

class ComposerContinue : public ::testing::TestWithParam<std::tuple<const char*, Start>> {};

template <class T>
void expect_near(const TensorView& actual, const TensorView& expected, double tolerance) {
  const SharedBytes a = actual.contiguous_bytes();
  const SharedBytes e = expected.contiguous_bytes();
  ASSERT_EQ(a.view.size(), e.view.size());
  for (std::size_t i = 0; i < a.view.size(); i += sizeof(T)) {
    T x;
    T y;
    std::memcpy(&x, a.view.data() + i, sizeof(T));
    std::memcpy(&y, e.view.data() + i, sizeof(T));
    ASSERT_NEAR(static_cast<double>(x), static_cast<double>(y), tolerance) << "at byte " << i;
  }
}

// The bias in front of the BatchNorm has a gradient that is zero but for rounding; Adam divides it
// by its own size. Without the vector instructions that the Python run used, kernels round in
// another way: that bias then takes other steps (of the size of the learning rate), and the running
// mean follows it. Neither changes what the network computes in training.
bool rounds_as_python_did() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx2") != 0;
#else
  return false;
#endif
}

double tolerance(const std::string& run, const std::string& name) {
  const bool is_rounding = name == "module.0.bias" || name == "module.1.running_mean";
  constexpr double kLargestLearningRate = 0.02;
  return is_rounding && run != "sgdw_linear" && !rounds_as_python_did()
             ? kNumBatches * kLargestLearningRate
             : kTolerance;
}

void expect_same_weights(const std::string& run, const Value& actual, const Value& expected) {
  ASSERT_EQ(actual.as_dict().size(), expected.as_dict().size());
  for (const auto& [name, value] : expected.as_dict()) {
    SCOPED_TRACE(name.as_str());
    const double near = tolerance(run, name.as_str());
    const TensorView& tensor = actual.at(name.as_str()).as_tensor();
    ASSERT_EQ(tensor.dtype, value.as_tensor().dtype);
    ASSERT_EQ(tensor.shape, value.as_tensor().shape);
    if (tensor.dtype == DType::kInt64) {
      expect_near<std::int64_t>(tensor, value.as_tensor(), 0);
    } else {
      ASSERT_EQ(tensor.dtype, DType::kFloat32);
      expect_near<float>(tensor, value.as_tensor(), near);
    }
  }
}

TEST_P(ComposerContinue, EndsWithComposersLossesAndWeights) {
  const auto& [run, start] = GetParam();
  const std::string folder = kRuns + "/" + run;
  const testing::TempFolder temp;
  testing::ChildProcess program({CAIRN_COMPOSER_CONTINUE, "--data", kRuns + "/data.pt",
                                 "--checkpoint", folder + "/" + start.checkpoint, "--case", run,
                                 "--out", temp / "final.pt", "--losses", temp / "losses.json"});
  ASSERT_EQ(program.wait().exit_code, 0) << program.output();

  expect_same_weights(run, load(temp / "final.pt"), load(folder + "/final_weights.pt"));

  const auto losses = nlohmann::json::parse(testing::read_file(temp / "losses.json"));
  const auto expected = nlohmann::json::parse(testing::read_file(folder + "/run.json"))["losses"];
  ASSERT_EQ(losses.size(), static_cast<std::size_t>(kNumBatches - start.first_batch));
  for (int batch = start.first_batch; batch < kNumBatches; ++batch) {
    EXPECT_NEAR(losses[std::to_string(batch)].get<double>(), expected[batch].get<double>(),
                kTolerance)
        << "loss of batch " << batch;
  }
}

INSTANTIATE_TEST_SUITE_P(
    EveryRunAndCheckpoint, ComposerContinue,
    ::testing::Combine(::testing::Values("adamw_cosine", "sgdw_linear", "adam_steplr", "ema"),
                       ::testing::Values(Start{"ep0-ba3-rank0.pt", 3}, Start{"ep0-ba5-rank0.pt", 5},
                                         Start{"ep1-ba8-rank0.pt", 8})),
    [](const auto& test) {
      return std::string(std::get<0>(test.param)) + "_from_batch_" +
             std::to_string(std::get<1>(test.param).first_batch);
    });

}  // namespace
}  // namespace cairn
