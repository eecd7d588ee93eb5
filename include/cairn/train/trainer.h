// Trainer: Composer's Trainer (composer/trainer/trainer.py).
//
//   cairn::Trainer trainer(cairn::TrainerOptions{.model = classifier(net),
//                                                .train_dataloader = train,
//                                                .max_duration = "2ep",
//                                                .optimizers = AdamW({.lr = 1e-3})});
//   trainer.fit();
//
// `Trainer trainer({...})` does the same. With the name TrainerOptions, the compiler can name a
// mistaken field.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/export.h"
#include "cairn/train/options.h"
#include "cairn/train/state.h"

namespace CAIRN_PUBLIC cairn {

// One call of fit(). For absent options the Trainer's values apply. Options that are set replace
// these values, for later calls, too (except spin_dataloaders).
struct FitOptions {
  DataSpecOrLoader train_dataloader = {};
  std::string train_dataloader_label = "train";  // of a loader that is passed here
  std::optional<std::int64_t> train_subset_num_batches = std::nullopt;
  std::optional<bool> spin_dataloaders = std::nullopt;
  // Trains this much more: max_duration becomes the current count in this unit plus this duration.
  // Calls of fit() are numbered, and with autoresume a restarted program repeats them. A call that
  // the checkpoint knows keeps its end. A finished call returns kAlreadyFinished.
  std::optional<Duration> duration = std::nullopt;
  // Start counting from zero; weights and optimizer stay. For a second stage of training. Without
  // reset_time, checkpoints of the second stage would be named and ordered after those of the first
  // stage. A call that autoresume knows does not set the time back again. Give each stage a
  // save_folder of its own: docs/trainer.md, "Stages with reset_time".
  bool reset_time = false;
  // Replace the Trainer's schedulers; they start from the optimizer's initial rates.
  std::optional<HandleList<Scheduler>> schedulers = std::nullopt;
  double scale_schedule_ratio = 1.0;  // with schedulers only
  std::optional<bool> step_schedulers_every_batch = std::nullopt;
  std::optional<EvaluatorList> eval_dataloader = std::nullopt;
  // The next two options apply to an eval_dataloader that is passed here.
  std::optional<std::int64_t> eval_subset_num_batches = std::nullopt;
  Interval eval_interval = 1;
  std::optional<MicrobatchSize> device_train_microbatch_size = std::nullopt;
};

// Why fit() returned. Failures are exceptions, and not among these.
struct FitResult {
  enum class Reason : std::uint8_t {
    kFinished,         // max_duration was reached, or stop_training() called
    kAlreadyFinished,  // an autoresumed run had nothing left to do
    kInterrupted,      // a signal asked to stop; the state is saved if there is a save folder
  };
  Reason reason = Reason::kFinished;
  int exit_code = 0;  // what main() should return
};

// Not thread-safe: one thread constructs a Trainer, trains and destroys it. A Trainer has threads
// of its own for loading data and writing checkpoints. From the first save on (with save_async) it
// keeps memory for one more copy of the state.
class Trainer {
 public:
  // Builds everything, loads a checkpoint if there is one to load, and fires INIT, BEFORE_LOAD and
  // AFTER_LOAD. Throws UsageError for its options, and what load_checkpoint() throws; then no
  // thread and no file is left.
  explicit Trainer(TrainerOptions options);  // Trainer trainer(TrainerOptions{.model = ...})
  // Calls close(), and logs errors.
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Trains until max_duration. Throws UsageError if there is nothing to train (unless an
  // autoresumed run is finished) or if training would never end. Throws what callbacks, the model
  // or a save threw. cairn's own errors and classes of yours arrive unchanged. Exceptions of
  // libtorch or the standard library arrive as a TrainingError, which says in which batch, of which
  // shapes, or in which callback. The original is nested in it (std::rethrow_if_nested has its
  // backtrace).
  FitResult fit(FitOptions options = {});
  FitResult fit(Duration) = delete;  // fit({.duration = "1ep"})

  // Evaluates outside fit(), with `evaluators` or those of the Trainer. The results are logged, and
  // are in State::metric_values. Throws UsageError if there is nothing to evaluate.
  void eval(const std::optional<EvaluatorList>& evaluators = std::nullopt,
            std::optional<std::int64_t> subset_num_batches = std::nullopt);

  // Runs forward over a loader, and returns the outputs of each batch, on the host. If they may not
  // fit into memory, set return_outputs to false, and take them from State::outputs in the event
  // predict_batch_end. State::predict_timestamp counts the batches.
  std::vector<Outputs> predict(DataSpecOrLoader dataloader,
                               std::optional<std::int64_t> subset_num_batches = std::nullopt,
                               bool return_outputs = true);

  // Calls every callback's close() and post_close(); further calls do nothing. Waits for saves
  // under way, and throws the error of a failed one.
  void close();

  // The live state: training continues with what is changed here. Valid while the Trainer lives.
  State& state();
  Logger& logger();

  // As the functions of the first CheckpointSaver; {} without one.
  std::vector<std::string> saved_checkpoints();
  std::map<std::string, Timestamp> all_saved_checkpoints_to_timestamp();
  std::vector<std::pair<std::string, double>> best_checkpoints();  // With save_keep_best.
  // Saves once, durably, to a path of this format string; moves no link, removes nothing. Returns
  // the path. The ranks of a sharded run (state_dict_type "sharded") write a folder, named after
  // the batch, in place of that file. Throws AlreadyExistsError if weights alone would replace a
  // checkpoint of the whole state.
  std::string save_checkpoint(const std::string& name = "ep{epoch}-ba{batch}-rank{rank}",
                              bool weights_only = false);
  // Tells the first CheckpointSaver to save now. Throws UsageError without one.
  void save_checkpoint_to_save_folder();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
