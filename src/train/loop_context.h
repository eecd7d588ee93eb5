// What the training, evaluation and prediction loops share.
#pragma once

#include <ATen/core/Tensor.h>

#include "cairn/train/logger.h"
#include "cairn/train/state.h"

#include "train/engine.h"
#include "train/precision.h"

namespace cairn {

struct LoopContext {
  State& state;
  Logger& logger;
  Engine& engine;
  at::Device device = at::kCPU;
  Precision precision = Precision::kFp32;
  bool accumulate_on_tokens = false;

  // Whether anybody sees what is logged: nothing is gathered for nobody.
  bool logging() const { return !logger.destinations().empty(); }
};

inline Batch to_device(Batch batch, const at::Device& device) {
  if (device.is_cpu()) return batch;
  return batch.map([&](const at::Tensor& tensor) { return tensor.to(device); });
}

// Computes `metrics`, keeps the values in state.metric_values[label] and logs them as
// "metrics/<label>/<name>".
void compute_metrics(LoopContext& context, const std::string& label, const Metrics& metrics);

// The model in eval mode, and back.
class EvalMode {
 public:
  explicit EvalMode(torch::nn::Module& module);
  ~EvalMode();
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  torch::nn::Module& module_;
  bool was_training_;
};

// Puts state.dataloader and its companions back, also when an event throws.
class DataloaderGuard {
 public:
  explicit DataloaderGuard(State& state)
      : state_(state),
        dataloader_(state.dataloader),
        label_(state.dataloader_label),
        length_(state.dataloader_len) {}
  ~DataloaderGuard() {
    state_.dataloader = dataloader_;
    state_.dataloader_label = std::move(label_);
    state_.dataloader_len = length_;
  }
  DataloaderGuard(const DataloaderGuard&) = delete;
  DataloaderGuard& operator=(const DataloaderGuard&) = delete;

 private:
  State& state_;
  DataSpec* dataloader_;
  std::string label_;
  std::optional<std::int64_t> length_;
};

}  // namespace cairn
