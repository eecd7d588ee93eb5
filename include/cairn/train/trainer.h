// Trainer: Composer's Trainer (composer/trainer/trainer.py).
//
//   cairn::Trainer trainer(cairn::TrainerOptions{.model = classifier(net),
//                                                .train_dataloader = train,
//                                                .max_duration = "2ep",
//                                                .optimizers = AdamW({.lr = 1e-3})});
//   trainer.fit();
//
// `Trainer trainer({...})` does the same; with the name, the compiler names a mistaken field.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/train/options.h"
#include "cairn/train/state.h"

namespace cairn {

// One call of fit(). What is absent stays as it is in the Trainer; what is given replaces it there
// and holds for later calls, too (but spin_dataloaders).
struct FitOptions {
  DataSpecOrLoader train_dataloader = {};
  std::string train_dataloader_label = "train";  // of a loader that is given here
  std::optional<std::int64_t> train_subset_num_batches = std::nullopt;
  std::optional<bool> spin_dataloaders = std::nullopt;
  // Trains this much more, in its unit: max_duration becomes the current count plus this duration.
  // Calls of fit() are numbered, and with autoresume a restarted program repeats them. A call that
  // the checkpoint knows keeps its end. A finished call returns kAlreadyFinished.
  std::optional<Duration> duration = std::nullopt;
  // Start counting from zero; weights and optimizer stay. For a second stage of training: otherwise
  // its checkpoints would be named, and ordered, after those of the first stage. A call that
  // autoresume knows does not set the time back again. Give each stage a save_folder of its own:
  // docs/trainer.md, "Stages with reset_time".
  bool reset_time = false;
  // In place of those there are; they start from the optimizer's initial rates.
  std::optional<HandleList<Scheduler>> schedulers = std::nullopt;
  double scale_schedule_ratio = 1.0;  // with schedulers only
  std::optional<bool> step_schedulers_every_batch = std::nullopt;
  std::optional<EvaluatorList> eval_dataloader = std::nullopt;
  // The next two go with an eval_dataloader that is given here.
  std::optional<std::int64_t> eval_subset_num_batches = std::nullopt;
  Interval eval_interval = 1;
  std::optional<std::int64_t> device_train_microbatch_size = std::nullopt;
};

// Why fit() returned. Failures are exceptions; none of these is one.
struct FitResult {
  enum class Reason : std::uint8_t {
    kFinished,         // max_duration reached, or stop_training()
    kAlreadyFinished,  // an autoresumed run had nothing left to do
    kInterrupted,      // a signal asked to stop; the state is saved if there is a save folder
  };
  Reason reason = Reason::kFinished;
  int exit_code = 0;  // what main() should return
};

// Not thread-safe; one thread constructs it, trains and destroys it. It has threads of its own for
// loading data and writing checkpoints, and from the first save on (save_async) memory for one more
// copy of the state.
class Trainer {
 public:
  // Builds everything, loads a checkpoint when there is one to load, and fires INIT, BEFORE_LOAD
  // and AFTER_LOAD. Throws UsageError (options), and what load_checkpoint() throws; no thread and
  // no file is left behind then.
  explicit Trainer(TrainerOptions options);  // Trainer trainer(TrainerOptions{.model = ...})
  // close(), with errors logged.
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Trains until max_duration. Throws UsageError when there is nothing to train (unless an
  // autoresumed run is simply finished) or would never end, and what callbacks, the model or a save
  // threw. What libtorch or the standard library threw in them arrives as a TrainingError that says
  // in which batch, of which shapes, or in which callback, with the original nested in it
  // (std::rethrow_if_nested has its backtrace); cairn's own errors and classes of yours arrive as
  // they are.
  FitResult fit(FitOptions options = {});
  FitResult fit(Duration) = delete;  // fit({.duration = "1ep"})

  // Evaluates outside fit(): `evaluators`, or those of the Trainer. The results are logged, and
  // stand in State::metric_values. UsageError when there is nothing to evaluate.
  void eval(const std::optional<EvaluatorList>& evaluators = std::nullopt,
            std::optional<std::int64_t> subset_num_batches = std::nullopt);

  // Forward over a loader; the outputs, on the host, batch by batch. They are all kept: for more
  // than memory holds, take them from the event predict_batch_end, in State::outputs.
  std::vector<Outputs> predict(DataSpecOrLoader dataloader,
                               std::optional<std::int64_t> subset_num_batches = std::nullopt);

  // Calls every callback's close() and post_close(). Idempotent. Waits for saves under way and
  // throws what one of them threw.
  void close();

  // Live: what is changed here is what training goes on with. Valid while the Trainer lives.
  State& state();
  Logger& logger();

  // Of the first CheckpointSaver; {} without one.
  std::vector<std::string> saved_checkpoints();
  std::map<std::string, Timestamp> all_saved_checkpoints_to_timestamp();
  // Saves once, durably, to a path of this format string; no link, no retention. Returns the path.
  // What the ranks of a sharded run write together (state_dict_type "sharded") is a folder named
  // after the batch in the place of that file: AlreadyExistsError where weights alone would replace
  // a checkpoint of the whole state.
  std::string save_checkpoint(const std::string& name = "ep{epoch}-ba{batch}-rank{rank}",
                              bool weights_only = false);
  // Lets the first CheckpointSaver save now; UsageError without one.
  void save_checkpoint_to_save_folder();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
