// State: all parts of training at one moment (composer/core/state.py). Callbacks and algorithms
// read and change it; state_dict() is what a checkpoint holds.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/export.h"
#include "cairn/time.h"
#include "cairn/train/algorithm.h"
#include "cairn/train/batch.h"
#include "cairn/train/callback.h"
#include "cairn/train/data.h"
#include "cairn/train/evaluator.h"
#include "cairn/train/metric.h"
#include "cairn/train/model.h"
#include "cairn/train/scheduler.h"
#include "cairn/value.h"

namespace torch::optim {
class Optimizer;
}

namespace CAIRN_PUBLIC cairn {

class GradScaler;
class ShardedModule;

// A call of fit() with a duration, or a call that set the time back.
struct FitCall {
  std::optional<Time> duration;  // as passed; nullopt: up to max_duration
  Time begin;                    // in the unit of `end`
  Time end;
};
// All calls of fit() in a run, in order. Checkpoints hold them, so that a restarted run trains as
// long as it would have without the interruption.
struct FitCalls {
  std::int64_t finished = 0;                 // calls that reached their end, counted from the first
  std::optional<Time> end;                   // max_duration of the last finished call
  std::vector<std::optional<FitCall>> open;  // later calls; nullopt: up to max_duration
  std::size_t current = 0;                   // index in `open` of the last call that began
};

// Owned by the Trainer; used on the training thread only. Training continues with whatever an
// event's code assigns here: another batch, other outputs, a scaled loss. The Trainer fills the
// State from the TrainerOptions, which explain the values.
class State {
 public:
  std::string run_name;
  std::int64_t rank_zero_seed = 0;  // this process's seed is rank_zero_seed + its rank
  bool save_metrics = false;

  std::shared_ptr<Model> model;
  std::shared_ptr<torch::optim::Optimizer> optimizer;         // at most one, as in Composer
  std::vector<std::unique_ptr<RunningScheduler>> schedulers;  // attached to `optimizer`
  std::vector<std::shared_ptr<Algorithm>> algorithms;
  std::vector<std::shared_ptr<Callback>> callbacks;  // logger destinations first
  std::unique_ptr<GradScaler> scaler;

  // How far training has come. From batch_end on it counts the batch that has ended.
  Timestamp timestamp;
  std::optional<Timestamp> previous_timestamp;  // before the last batch; none before the first
  Timestamp eval_timestamp;                     // of the current evaluation, from zero
  Timestamp predict_timestamp;                  // of the current predict(), from zero
  // Where training ends; a callback may move it.
  std::optional<Time> max_duration;
  // The Trainer's record of the calls of fit(), for the next checkpoint. nullopt before the first
  // call.
  std::optional<FitCalls> fit_calls;
  // Whether schedulers step after the time has advanced, not before. True in a run that began in
  // Composer up to 0.9, which did so.
  bool schedulers_step_after_time = false;
  // The length of an iteration in epochs or tokens. nullopt: one iteration that never ends, so that
  // iteration_end and iteration_checkpoint never happen.
  std::optional<Time> iteration_length;

  // The loader in use: the train loader, or an evaluator's during an evaluation.
  DataSpec* dataloader = nullptr;
  std::string dataloader_label;
  std::optional<std::int64_t> dataloader_len;  // batches of one epoch, after subsetting
  DataSpec train_dataloader;
  std::vector<Evaluator> evaluators;
  std::optional<std::int64_t> device_train_microbatch_size;  // nullopt: batches are not cut
  bool auto_microbatching = false;  // whether that size is halved when a device's memory runs out
  // With defaults filled in, never absent.
  std::string device = "cpu";      // TrainerOptions::device, "cpu" or "gpu"
  std::string precision = "fp32";  // TrainerOptions::precision

  // The live metrics: reading one waits for the device. metric_values has the last computed values.
  Metrics train_metrics;
  std::vector<std::pair<std::string, Metrics>> eval_metrics;  // by evaluator label
  // The last computed values: {"train"|label: {metric: float}}. A value of several elements is a
  // tensor. Those of "train" may be of an earlier batch, as total_loss_dict.
  Dict metric_values;

  // The current batch: whole up to before_train_batch, then each microbatch in turn, on the device.
  // The outputs and the loss are the microbatch's.
  Batch batch;
  Outputs outputs;
  at::Tensor loss;  // the scalar that backward() runs on
  // "loss/train/total" -> float of the last batch. On a GPU it may be of an earlier batch, unless a
  // callback needs it (Callback::needs_losses()).
  Dict total_loss_dict;

  // The loaders' state: with the timestamp it restores their position. Holds the seed of loaders
  // that were given no seed. For a train loader with uses_global_rng() it holds the generator's
  // state at the start of the epoch. None before the first epoch.
  Value dataset_state;

  // The sharded model, of which this rank has its part; null: every rank has all of it
  // (cairn/dist/sharding.h). Parameters are whole only in forward() and backward(). Gradients and
  // the optimizer's state are never whole: code that needs all of them adds up over the ranks.
  std::shared_ptr<ShardedModule> sharding;

  // Ends training after the current batch as if max_duration were reached: with fit_end, a last
  // evaluation and a last save. For callbacks (EarlyStopper). Sets max_duration. In a job of
  // several processes, a stop in a save may come when all have agreed on the next batch: that is
  // the last.
  void stop_training();

  // timestamp.get(unit of max_duration) / max_duration; nullopt without max_duration.
  std::optional<Time> get_elapsed_duration() const;

  // The value of a metric by "label" and "name"; nullopt if it has not been computed yet,
  // or has several elements.
  std::optional<double> metric_value(const std::string& label, const std::string& metric) const;

  // --- What a checkpoint holds (docs/checkpoints.md) --------------------------------------------

  // Composer's entries in Composer's order. Tensors are views of live memory. A checkpoint is
  // {"state": state_dict(), "rng": rng_states()}; see cairn/train/state_dict.h. In a sharded run
  // the tensors are this rank's, and say which part of the whole they are (TensorView::part).
  Value state_dict() const;
  // {"model", "integrations", "metadata"}.
  Value model_state_dict() const;

  State();
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  struct CheckpointForm;  // one file, or what the ranks write together: internal

 private:
  std::unique_ptr<CheckpointForm> checkpoint_form_;
};

}  // namespace cairn
