// State: everything that training is made of at one moment (composer/core/state.py). Callbacks and
// algorithms read and change it; state_dict() is what a checkpoint holds.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

namespace cairn {

class GradScaler;
class ShardedModule;

// A call of fit() that was given a duration, or that set the time back.
struct FitCall {
  std::optional<Time> duration;  // as it was given; none: up to max_duration
  Time begin;                    // in the unit of `end`
  Time end;
};
// The calls of fit() of a run, in their order. Checkpoints hold them, so that a restarted run
// trains as long as it would have without the interruption.
struct FitCalls {
  std::int64_t finished = 0;                 // calls that reached their end, from the first on
  std::optional<Time> end;                   // max_duration of the last finished call
  std::vector<std::optional<FitCall>> open;  // calls that began later; none: up to max_duration
  std::size_t current = 0;                   // the index in `open` of the call that began last
};

// Owned by the Trainer; used on the training thread only. In an event, what is assigned here is
// what training goes on with: another batch, other outputs, a scaled loss. The Trainer fills it
// from its options; TrainerOptions says what they mean.
class State {
 public:
  std::string run_name;
  std::int64_t rank_zero_seed = 0;  // this process's seed is rank_zero_seed + its rank
  bool save_metrics = false;

  std::shared_ptr<Model> model;
  std::shared_ptr<torch::optim::Optimizer> optimizer;         // one at most, as in Composer
  std::vector<std::unique_ptr<RunningScheduler>> schedulers;  // attached to `optimizer`
  std::vector<std::shared_ptr<Algorithm>> algorithms;
  std::vector<std::shared_ptr<Callback>> callbacks;  // logger destinations first
  std::unique_ptr<GradScaler> scaler;

  // How far training has come. In batch_end and later it counts the batch that has ended.
  Timestamp timestamp;
  std::optional<Timestamp> previous_timestamp;  // before the last batch; none before the first
  Timestamp eval_timestamp;                     // of the evaluation that is under way, from zero
  // Where training ends; a callback may move it.
  std::optional<Time> max_duration;
  // The Trainer's notes of the calls of fit(), for the next checkpoint. None before the first.
  std::optional<FitCalls> fit_calls;
  // Schedulers step after the time has advanced, not before: true in a run that began in Composer
  // up to 0.9, which did so.
  bool schedulers_step_after_time = false;
  // Length of an iteration in epochs or tokens. None: one iteration that never ends, so that
  // iteration_end and iteration_checkpoint never come.
  std::optional<Time> iteration_length;

  // The loader in use: the train loader, or an evaluator's while that runs.
  DataSpec* dataloader = nullptr;
  std::string dataloader_label;
  std::optional<std::int64_t> dataloader_len;  // batches of an epoch of it, after subsetting
  DataSpec train_dataloader;
  std::vector<Evaluator> evaluators;
  std::optional<std::int64_t> device_train_microbatch_size;  // none: batches are not cut
  // As resolved, never absent.
  std::string device = "cpu";      // TrainerOptions::device, "cpu" or "gpu"
  std::string precision = "fp32";  // TrainerOptions::precision

  // Live: reading one waits for the device. What was computed last is in metric_values.
  Metrics train_metrics;
  std::vector<std::pair<std::string, Metrics>> eval_metrics;  // by evaluator label
  // The last computed values: {"train"|label: {metric: float}}.
  Dict metric_values;

  // The batch at work: whole up to before_train_batch, then each microbatch in turn, on the device.
  // The outputs and the loss are those of the microbatch.
  Batch batch;
  Outputs outputs;
  at::Tensor loss;       // the scalar that backward() runs on
  Dict total_loss_dict;  // "loss/train/total" -> float of the last batch

  // Brings the loaders back to the position, with the timestamp. Holds the seed of loaders that
  // were given none. For a train loader with uses_global_rng() it holds the generator's state at
  // the start of the epoch. None before the first epoch.
  Value dataset_state;

  // The model, of which this rank has its part; null: all of it (cairn/dist/sharding.h). Parameters
  // are whole in forward() and backward() only, and gradients and the optimizer's state never: what
  // looks at all of them adds up over the ranks.
  std::shared_ptr<ShardedModule> sharding;

  // From the moment the current batch ends, training ends as if max_duration were reached: with
  // fit_end, a last evaluation and a last save. For callbacks (EarlyStopper); sets max_duration.
  void stop_training();

  // timestamp.get(unit of max_duration) / max_duration; nullopt without max_duration.
  std::optional<Time> get_elapsed_duration() const;

  // The value of a metric by "label", "name"; nullopt when it was not computed yet.
  std::optional<double> metric_value(const std::string& label, const std::string& metric) const;

  // --- What a checkpoint holds (docs/checkpoints.md) --------------------------------------------

  // Composer's entries in Composer's order. Tensors are views of live memory. A checkpoint is
  // {"state": state_dict(), "rng": rng_states()}; see cairn/train/state_dict.h. Of a sharded run
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
