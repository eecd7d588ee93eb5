// Composer began, cairn finishes: from each checkpoint of each run, the losses of the remaining
// batches and the final weights are those of the Python run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include <nlohmann/json.hpp>

#include "cairn/checkpoint/checkpoint.h"

#include "testing/child_process.h"
#include "testing/environment_variable.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

constexpr double kTolerance = 1e-5;
constexpr int kNumBatches = 15;
const std::string kRuns = CAIRN_TEST_DATA "/composer-0.33";

struct Start {
  const char* checkpoint;
  int first_batch;
  const char* threads;  // of the C++ run; Python's had two
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

// What is not defined, whatever computes it: the bias in front of the BatchNorm has a gradient that
// is zero but for rounding, and Adam divides it by its own size. So the rounding of the BLAS
// decides where that bias goes, by steps of up to a learning rate, and the running mean follows it.
// BatchNorm takes both out again in training: losses, outputs and all other weights do not depend
// on them.
double tolerance(const std::string& run, const std::string& name) {
  const bool is_rounding = name == "module.0.bias" || name == "module.1.running_mean";
  constexpr double kLargestLearningRate = 0.02;
  return is_rounding && run != "sgdw_linear" ? kNumBatches * kLargestLearningRate : kTolerance;
}

// A matrix by rows, in double.
struct Matrix {
  Matrix(std::size_t rows, std::size_t width) : columns(width), numbers(rows * width, 0.0) {}
  explicit Matrix(const TensorView& tensor)
      : columns(tensor.shape.size() == 2 ? tensor.shape[1] : 1), numbers(tensor.numel()) {
    const SharedBytes bytes = tensor.contiguous_bytes();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      float number = 0;
      std::memcpy(&number, bytes.view.data() + i * sizeof(float), sizeof(float));
      numbers[i] = number;
    }
  }
  double& at(std::size_t row, std::size_t column) { return numbers[row * columns + column]; }
  double at(std::size_t row, std::size_t column) const { return numbers[row * columns + column]; }
  std::size_t rows() const { return numbers.size() / columns; }

  std::size_t columns;
  std::vector<double> numbers;
};

Matrix linear(const Matrix& x, const Value& weights, const std::string& layer) {
  const Matrix weight(weights.at(layer + ".weight").as_tensor());
  const Matrix bias(weights.at(layer + ".bias").as_tensor());
  Matrix y(x.rows(), weight.rows());
  for (std::size_t row = 0; row < y.rows(); ++row) {
    for (std::size_t out = 0; out < y.columns; ++out) {
      y.at(row, out) = bias.at(out, 0);
      for (std::size_t in = 0; in < x.columns; ++in) {
        y.at(row, out) += x.at(row, in) * weight.at(out, in);
      }
    }
  }
  return y;
}

// BatchNorm in training, and ReLU.
void normalise(Matrix& x, const Value& weights) {
  const Matrix weight(weights.at("module.1.weight").as_tensor());
  const Matrix bias(weights.at("module.1.bias").as_tensor());
  const auto count = static_cast<double>(x.rows());
  for (std::size_t column = 0; column < x.columns; ++column) {
    double mean = 0;
    double variance = 0;
    for (std::size_t row = 0; row < x.rows(); ++row)
      mean += x.at(row, column) / count;
    for (std::size_t row = 0; row < x.rows(); ++row)
      variance += std::pow(x.at(row, column) - mean, 2) / count;
    for (std::size_t row = 0; row < x.rows(); ++row) {
      const double normal = (x.at(row, column) - mean) / std::sqrt(variance + 1e-5);
      x.at(row, column) = std::max(0.0, normal * weight.at(column, 0) + bias.at(column, 0));
    }
  }
}

// Of the network in training mode, for all samples as one batch.
Matrix outputs(const Value& weights, const Matrix& samples) {
  Matrix hidden = linear(samples, weights, "module.0");
  normalise(hidden, weights);
  return linear(hidden, weights, "module.3");
}

void expect_same_outputs(const Value& actual, const Value& expected) {
  const Value data = load(kRuns + "/data.pt");
  const Matrix samples(data.at("x").as_tensor());
  const Matrix a = outputs(actual, samples);
  const Matrix e = outputs(expected, samples);
  ASSERT_EQ(a.numbers.size(), e.numbers.size());
  for (std::size_t i = 0; i < a.numbers.size(); ++i) {
    ASSERT_NEAR(a.numbers[i], e.numbers[i], kTolerance) << "output " << i;
  }
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
  const testing::EnvironmentVariable threads("OMP_NUM_THREADS", start.threads);
  const std::string folder = kRuns + "/" + run;
  const testing::TempFolder temp;
  testing::ChildProcess program({CAIRN_COMPOSER_CONTINUE, "--data", kRuns + "/data.pt",
                                 "--checkpoint", folder + "/" + start.checkpoint, "--case", run,
                                 "--out", temp / "final.pt", "--losses", temp / "losses.json"});
  ASSERT_EQ(program.wait().exit_code, 0) << program.output();

  const Value actual = load(temp / "final.pt");
  const Value expected_weights = load(folder + "/final_weights.pt");
  expect_same_weights(run, actual, expected_weights);
  expect_same_outputs(actual, expected_weights);

  const auto losses = nlohmann::json::parse(testing::read_file(temp / "losses.json"));
  const auto expected = nlohmann::json::parse(testing::read_file(folder + "/run.json"))["losses"];
  ASSERT_EQ(losses.size(), static_cast<std::size_t>(kNumBatches - start.first_batch));
  for (int batch = start.first_batch; batch < kNumBatches; ++batch) {
    EXPECT_NEAR(losses[std::to_string(batch)].get<double>(), expected[batch].get<double>(),
                kTolerance)
        << "loss of batch " << batch;
  }
}

// With the sampler's seed of the checkpoint, and one that is given.
TEST(ComposerContinueSeed, IsTheCheckpointsUnlessGiven) {
  const auto losses = [](const std::vector<std::string>& more) {
    const testing::TempFolder temp;
    std::vector<std::string> command = {CAIRN_COMPOSER_CONTINUE,
                                        "--data",
                                        kRuns + "/data.pt",
                                        "--checkpoint",
                                        kRuns + "/sgdw_linear/ep1-ba8-rank0.pt",
                                        "--case",
                                        "sgdw_linear",
                                        "--out",
                                        temp / "final.pt",
                                        "--losses",
                                        temp / "losses.json"};
    command.insert(command.end(), more.begin(), more.end());
    testing::ChildProcess program(command);
    EXPECT_EQ(program.wait().exit_code, 0) << program.output();
    return testing::read_file(temp / "losses.json");
  };
  const std::string as_saved = losses({});
  EXPECT_EQ(losses({"--sampler-seed", "1"}), as_saved);  // the run's
  EXPECT_NE(losses({"--sampler-seed", "2"}), as_saved);
}

INSTANTIATE_TEST_SUITE_P(EveryRunAndCheckpoint, ComposerContinue,
                         ::testing::Combine(::testing::Values("adamw_cosine", "sgdw_linear",
                                                              "adam_steplr", "ema"),
                                            ::testing::Values(Start{"ep0-ba3-rank0.pt", 3, "1"},
                                                              Start{"ep0-ba5-rank0.pt", 5, "2"},
                                                              Start{"ep1-ba8-rank0.pt", 8, "3"})),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) + "_from_batch_" +
                                  std::to_string(std::get<1>(test.param).first_batch);
                         });

}  // namespace
}  // namespace cairn
