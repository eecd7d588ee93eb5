// Runs that Composer began are finished by cairn. From each checkpoint of each run, the losses of
// the remaining batches and the final weights are those of the Python run.
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
  const char* threads;  // of the C++ run; Python used two
};

void PrintTo(const Start& start, std::ostream* out) {  // NOLINT: gtest's name
  *out << start.checkpoint << " with " << start.threads << " threads";
}

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

// Some values are not defined. The bias before the BatchNorm has a gradient that is zero except for
// rounding, and Adam divides it by its own size. So the rounding of the BLAS decides where that
// bias goes, by steps of up to a learning rate, and the running mean follows it. In training,
// BatchNorm removes both again: losses, outputs and all other weights do not depend on them. The
// amount that each batch adds to the running mean, less the bias of that batch, is defined.
bool drifts(const std::string& run, const std::string& name) {
  return run != "sgdw_linear" && (name == "module.0.bias" || name == "module.1.running_mean");
}

// A matrix stored by rows, in double precision.
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

// BatchNorm in training mode, and ReLU.
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

// The outputs of the network in training mode, for all samples as one batch.
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

// Compares all weights; those that drift may differ by `drift`.
void expect_same_weights(const std::string& run, const Value& actual, const Value& expected,
                         double drift) {
  ASSERT_EQ(actual.as_dict().size(), expected.as_dict().size());
  for (const auto& [name, value] : expected.as_dict()) {
    SCOPED_TRACE(name.as_str());
    const double near = drifts(run, name.as_str()) ? drift : kTolerance;
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

// The state in a checkpoint.
struct Moment {
  explicit Moment(const std::string& path) {
    const Value state = load(path).at("state");
    const Value& model = state.at("model");
    saved_bias = Matrix(model.at("module.0.bias").as_tensor());
    saved_mean = Matrix(model.at("module.1.running_mean").as_tensor());
    const Value* ema = nullptr;
    for (const Value& entry : state.at("algorithms").as_items()) {  // [name, state]
      if (entry.as_items().at(0).as_str() == "EMA") ema = &entry.as_items().at(1).at("ema_model");
    }
    // While EMA's averages are in the model, EMA holds the weights that are trained.
    const Value& weights = ema == nullptr ? model : ema->at("named_parameters_dict");
    const Value& buffers = ema == nullptr ? model : ema->at("named_buffers_dict");
    bias = Matrix(weights.at("module.0.bias").as_tensor());
    mean = Matrix(buffers.at("module.1.running_mean").as_tensor());
    const Value& optimizer = state.at("optimizers").as_dict().begin()->second;
    rate = optimizer.at("param_groups").as_items().at(0).at("lr").as_float();
  }

  Matrix saved_bias{0, 1}, saved_mean{0, 1};  // of the saved model: EMA's averages
  Matrix bias{0, 1}, mean{0, 1};              // the trained ones
  double rate = 0;                            // learning rate of the next batch
};

// The checkpoint that the run started from, and one checkpoint per batch to the end.
std::vector<Moment> moments(const std::string& start, int first_batch, const std::string& saved) {
  constexpr int kBatchesPerEpoch = 5;
  std::vector<Moment> all{Moment(start)};
  for (int batch = first_batch + 1; batch <= kNumBatches; ++batch) {
    const int epoch = (batch - 1) / kBatchesPerEpoch;
    const std::string both[] = {std::to_string(epoch), std::to_string(epoch + 1)};
    const auto path = [&](const std::string& e) {
      return saved + "/ep" + e + "-ba" + std::to_string(batch) + "-rank0.pt";
    };
    all.emplace_back(std::ifstream(path(both[0])) ? path(both[0]) : path(both[1]));
  }
  return all;
}

// Each batch added to the running mean the same amount as in Python, except for the biases.
void expect_same_batch_means(const std::vector<Moment>& run, int first_batch,
                             const Matrix& expected) {
  constexpr double kMomentum = 0.1;
  for (std::size_t i = 0; i + 1 < run.size(); ++i) {
    const std::size_t row = first_batch + i - 3;
    for (std::size_t unit = 0; unit < expected.columns; ++unit) {
      const double kept = (1 - kMomentum) * run[i].mean.at(unit, 0);
      const double taken_in = (run[i + 1].mean.at(unit, 0) - kept) / kMomentum;
      ASSERT_NEAR(taken_in - run[i].bias.at(unit, 0), expected.at(row, unit), kTolerance)
          << "batch " << first_batch + i << ", unit " << unit;
    }
  }
}

// EMA's averages are those of the trained weights, even where these drifted.
void expect_averages(const std::vector<Moment>& run) {
  const double keep = std::exp2(-1.0 / 4);  // half_life 4ba
  for (std::size_t i = 1; i < run.size(); ++i) {
    const auto expect = [&](Matrix Moment::*saved, Matrix Moment::*trained) {
      for (std::size_t unit = 0; unit < (run[i].*saved).rows(); ++unit) {
        const double average =
            keep * (run[i - 1].*saved).at(unit, 0) + (1 - keep) * (run[i].*trained).at(unit, 0);
        ASSERT_NEAR((run[i].*saved).at(unit, 0), average, 1e-6) << "unit " << unit;
      }
    };
    expect(&Moment::saved_bias, &Moment::bias);
    expect(&Moment::saved_mean, &Moment::mean);
  }
}

// How far two runs can drift apart: at most 1.1 learning rates per step each (by Cauchy and
// Schwarz, after at most 15 steps with these betas).
double largest_drift(const std::vector<Moment>& run) {
  double sum = 0;
  for (std::size_t i = 0; i + 1 < run.size(); ++i)
    sum += 2 * 1.1 * run[i].rate;
  return sum;
}

TEST_P(ComposerContinue, EndsWithComposersLossesAndWeights) {
  const auto& [run, start] = GetParam();
  const testing::EnvironmentVariable threads("OMP_NUM_THREADS", start.threads);
  const std::string folder = kRuns + "/" + run;
  const testing::TempFolder temp;
  testing::ChildProcess program({CAIRN_COMPOSER_CONTINUE, "--data", kRuns + "/data.pt",
                                 "--checkpoint", folder + "/" + start.checkpoint, "--case", run,
                                 "--out", temp / "final.pt", "--losses", temp / "losses.json",
                                 "--save-folder", temp / "saved"});
  ASSERT_EQ(program.wait().exit_code, 0) << program.output();

  const Value actual = load(temp / "final.pt");
  const Value expected_weights = load(folder + "/final_weights.pt");
  const std::vector<Moment> states =
      moments(folder + "/" + start.checkpoint, start.first_batch, temp / "saved");
  expect_same_weights(run, actual, expected_weights, largest_drift(states));
  expect_same_outputs(actual, expected_weights);
  const Value means = load(kRuns + "/batch_means.pt");
  expect_same_batch_means(states, start.first_batch, Matrix(means.at(run).as_tensor()));
  EXPECT_EQ(Matrix(actual.at("module.0.bias").as_tensor()).numbers,
            states.back().saved_bias.numbers);
  EXPECT_EQ(Matrix(actual.at("module.1.running_mean").as_tensor()).numbers,
            states.back().saved_mean.numbers);
  if (run == std::string("ema")) expect_averages(states);

  const auto losses = nlohmann::json::parse(testing::read_file(temp / "losses.json"));
  const auto expected = nlohmann::json::parse(testing::read_file(folder + "/run.json"))["losses"];
  ASSERT_EQ(losses.size(), static_cast<std::size_t>(kNumBatches - start.first_batch));
  for (int batch = start.first_batch; batch < kNumBatches; ++batch) {
    EXPECT_NEAR(losses[std::to_string(batch)].get<double>(), expected[batch].get<double>(),
                kTolerance)
        << "loss of batch " << batch;
  }
}

// Uses the sampler's seed from the checkpoint, then a given one.
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
  EXPECT_EQ(losses({"--sampler-seed", "1"}), as_saved);  // the seed of the run
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
