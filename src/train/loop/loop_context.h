// State and functions that the training, evaluation and prediction loops share.
#pragma once

#include <ATen/core/Tensor.h>

#include "cairn/train/logger.h"
#include "cairn/train/state.h"

#include "train/engine/engine.h"
#include "train/engine/layer_watch.h"
#include "train/loop/precision.h"
#include "train/loop/report/pending_losses.h"
#include "train/loop/report/phase_times.h"

namespace cairn {

namespace dist {
class Group;
}

struct LoopContext {
  State& state;
  Logger& logger;
  Engine& engine;
  at::Device device = at::kCPU;
  Precision precision = Precision::kFp32;
  bool accumulate_on_tokens = false;
  dist::Group* group = nullptr;  // Null in a job of one process.
  DdpSyncStrategy sync_strategy = DdpSyncStrategy::kSingleAutoSync;

  // The current microbatch, and the current batch of predict(), for messages (failure.h).
  std::size_t microbatch = 0;
  std::size_t microbatches = 1;
  std::optional<std::int64_t> predict_batch = std::nullopt;
  KnownBatches known_batches = {};
  PhaseTimes times = PhaseTimes();  // of the current fit()
  // An evaluation or a prediction used the train loader's own object. The loader must seek back
  // before it gives training its next batch.
  bool train_loader_left = false;

  // Whether any destination takes what is logged. If there is none, nothing is gathered for logs.
  bool logging() const { return !logger.destinations().empty(); }
};

// Begins epoch `epoch` of a loader, for evaluation or prediction.
void start_pass(LoopContext& context, DataLoaderBase& loader, std::int64_t epoch);

// Passes state.batch through the loader's batch_transforms.
void transform_batch(LoopContext& context, const DataSpec& spec);
// Moves state.batch to the device, and passes it through the loader's microbatch_transforms.
void place_microbatch(LoopContext& context);

// Sets the number of parts of the current batch in the context while this object lives.
class MicrobatchCount {
 public:
  MicrobatchCount(LoopContext& context, std::size_t count) : context_(context) {
    context.microbatches = count;
  }
  ~MicrobatchCount() {
    context_.microbatches = 1;
    context_.microbatch = 0;
  }
  MicrobatchCount(const MicrobatchCount&) = delete;
  MicrobatchCount& operator=(const MicrobatchCount&) = delete;

 private:
  LoopContext& context_;
};

// Clears the batch number of predict() at its end.
class PredictBatch {
 public:
  explicit PredictBatch(LoopContext& context) : context_(context) {}
  ~PredictBatch() { context_.predict_batch.reset(); }
  PredictBatch(const PredictBatch&) = delete;
  PredictBatch& operator=(const PredictBatch&) = delete;

 private:
  LoopContext& context_;
};

// Calls Model::update_metric() for each of `metrics`.
void update_all_metrics(LoopContext& context, const Metrics& metrics, const Batch& batch,
                        const Outputs& outputs);

// The values of `metrics` over all ranks, on the device.
NamedValues compute_values(const LoopContext& context, const Metrics& metrics);
// Keeps the values in state.metric_values[label], and logs them as "metrics/<label>/<name>" of a
// batch. Waits for the device.
void publish_metrics(LoopContext& context, const std::string& label, const NamedValues& computed,
                     std::int64_t batch);
// Both, for the current batch.
void compute_metrics(LoopContext& context, const std::string& label, const Metrics& metrics);

// Sets the model to eval mode, and restores its mode at the end.
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

// Restores state.dataloader and its companions, also when an event throws.
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
