// A model and data small enough that a test trains it in a millisecond.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "cairn/train/callback.h"
#include "cairn/train/data.h"
#include "cairn/train/metric.h"
#include "cairn/train/model.h"
#include "cairn/train/options.h"

namespace cairn::testing {

// The mean of all outputs that update() got: floating-point outputs of any shape. The sum stays on
// the outputs' device.
class MeanOutput final : public Metric {
 public:
  std::string name() const override { return "MeanOutput"; }
  std::unique_ptr<Metric> clone() const override { return std::make_unique<MeanOutput>(); }
  void reset() override { sum_ = at::Tensor(), count_ = 0; }
  void update(const at::Tensor& outputs, const at::Tensor& target) override;
  at::Tensor compute() override;
  Value state_dict() const override { return Dict(); }
  void load_state_dict(const Value& /*state*/) override {}

 private:
  at::Tensor sum_;
  std::int64_t count_ = 0;
};

struct TinyModelOptions {
  double dropout = 0;
  bool metrics = false;    // MeanOutput, for training and evaluation.
  bool by_name = false;    // Losses {"ce", "l2", "total"} instead of one.
  std::uint64_t seed = 1;  // For the initial weights.
};

// Linear(4, 8), tanh, dropout, Linear(8, 3), cross-entropy. In float64, so that sums in another
// order agree closely. Does not change the state of torch's generator.
class TinyModel : public Model {
 public:
  explicit TinyModel(TinyModelOptions options = {});
  torch::nn::Module& module() override { return *net_; }
  Outputs forward(const Batch& batch) override;
  Losses loss(const Outputs& outputs, const Batch& batch) override;
  Metrics get_metrics(bool is_train) override;

 private:
  TinyModelOptions options_;
  std::shared_ptr<torch::nn::Module> net_;
  torch::nn::Linear first_{nullptr};
  torch::nn::Linear second_{nullptr};
};

// `samples` rows of 4 features, each with one of 3 classes. The same arguments give the same data.
std::shared_ptr<Dataset> tiny_dataset(std::int64_t samples, std::uint64_t seed = 5);

// Batches of 2 in order, without threads.
DataLoader tiny_loader(std::int64_t samples, DataLoaderOptions options = {.batch_size = 2});

// A TinyModel on 10 samples with SGD-like defaults. Logs nothing, and handles no signals.
TrainerOptions tiny_options(TinyModelOptions model = {});

// All parameters, flattened into one tensor.
at::Tensor weights_of(Model& model);

// Notes the name of each event.
class EventRecorder final : public Callback {
 public:
  std::string name() const override { return "EventRecorder"; }
  void run_event(Event event, State& state, Logger& logger) override;
  void close(State& state, Logger& logger) override;
  void post_close() override { events.emplace_back("post_close"); }
  std::int64_t count(const std::string& event) const;

  std::vector<std::string> events;
};

// Calls a function at one event.
class CallAt final : public Callback {
 public:
  CallAt(Event event, std::function<void(State&)> action, bool may_change_batch = true)
      : event_(event), action_(std::move(action)), may_change_batch_(may_change_batch) {}
  std::string name() const override { return "CallAt"; }
  bool may_change_batch() const override { return may_change_batch_; }
  void run_event(Event event, State& state, Logger& logger) override;

 private:
  Event event_;
  std::function<void(State&)> action_;
  bool may_change_batch_;
};

// Keeps the messages and metrics that were logged.
class LogRecorder final : public LoggerDestination {
 public:
  std::string name() const override { return "LogRecorder"; }
  void log_metrics(const Dict& metrics, std::int64_t step) override;
  void log_hyperparameters(const Dict& hyperparameters) override;
  void log_traces(const Dict& traces) override;
  void log_message(const std::string& message) override { messages.push_back(message); }
  // The values logged under `key`, in order.
  std::vector<double> values(const std::string& key) const;

  std::vector<std::pair<std::string, Value>> metrics;
  std::vector<std::int64_t> steps;
  Dict hyperparameters;
  std::vector<std::string> traces;
  std::vector<std::string> messages;
};

}  // namespace cairn::testing
