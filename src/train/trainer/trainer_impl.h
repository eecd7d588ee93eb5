// The parts of a Trainer, and its construction.
//
// Construction, in Composer's order:
//  0. Several processes meet (dist::initialize()), take rank 0's seed, and its run name if they
//     have none, and compare their options and models (rank_facts.h).
//  1. Device, precision, determinism; the model moves to the device.
//  2. The seed seeds every generator.
//  3. The model is sharded (parallelism_config); optimizer; run name.
//  4. Loggers, callbacks, the profiler, then a CheckpointSaver if save_folder is set and there is
//     none. A check that no saver writes another's files. The first line: what the process computes
//     with, and how many threads.
//  5. init.
//  6. Hyperparameters; metrics and evaluators; the train loader; schedulers; gradient scaler.
//  7. before_load; the newest checkpoint (autoresume) or load_path; after_load. The loaded
//     generators are kept (State::CheckpointForm) until a fit() has trained from the position: if a
//     fit() fails before that, the next fit() begins at that position again. With several
//     processes, all are at rank 0's position, and have rank 0's weights.
//  8. The generators are seeded again, with the loaded seed if there is one; each rank's with the
//     seed plus its number.
#pragma once

#include <exception>
#include <functional>
#include <optional>

#include "cairn/export.h"
#include "cairn/train/trainer.h"

#include "train/engine/engine.h"
#include "train/engine/signal_watch.h"
#include "train/engine/stop_request.h"
#include "train/loop/eval_loop.h"
#include "train/loop/loop_context.h"
#include "train/trainer/fit_numbers.h"

namespace CAIRN_PUBLIC cairn {
class CheckpointSaver;
}  // namespace cairn

namespace cairn {

// Throws one UsageError that lists everything that no Trainer could do (resolve.cpp).
void check(const FitOptions& options, const State& state);

struct Trainer::Impl {
  struct Outside {                        // Requests from outside.
    std::optional<SignalWatch> signals;   // From construction to close(); with handle_signals.
    std::optional<StopRequest> requests;  // From the first fit() to close(); none without signals.
    Requests unserved;  // Taken, but not served yet: the fit() threw, or has not polled since.
  };
  struct Resumed {
    std::string from;       // LoadOutcome::resumed_from.
    bool is_there = false;  // The position is that of a checkpoint; no batch was trained since.
  };

  explicit Impl(TrainerOptions resolved_options);

  FitResult fit(FitOptions fit_options);
  // Runs an eval() or predict() outside fit(). Nothing serves a SIGTERM that comes during `work`,
  // or that came before any fit(). A SIGTERM that came during the last batch of a fit() is for the
  // next fit().
  void run_unattended(const std::function<void()>& work);
  CheckpointSaver* reference_saver() const;  // The first one; null if there is none.
  // Calls all savers, even if one throws. Then throws the first exception.
  void for_each_saver(const std::function<void(CheckpointSaver&)>& act);
  void finish_saves();
  void leave_together();
  // Called while an exception is handled.
  void log_failure() noexcept;

  TrainerOptions options;  // Resolved.
  Outside outside;
  State state;
  Logger logger{state};
  Engine engine{state, logger};
  LoopContext context{state, logger, engine};
  EvalLoop evaluators{context};
  HandleList<Scheduler> schedulers;  // state.schedulers refer to them.
  bool step_schedulers_every_batch = true;
  Resumed resumed;
  bool trained = false;     // A fit() has begun, so the position is no longer that of the file.
  bool ended_well = false;  // The last fit() ended without an error on all ranks.
  int exceptions_around = std::uncaught_exceptions();  // At construction.
  FitNumbers fit_numbers;

 private:
  class Setup;  // Construction (trainer_setup.cpp).

  // For construction and fit().
  void bind_train_dataloader(DataSpec dataloader, const std::string& label);
  void subset_train_dataloader(std::int64_t batches);
  void set_schedulers(const HandleList<Scheduler>& list, double ratio,
                      std::optional<bool> every_batch);
  void scale_max_duration(double ratio);
  void set_microbatch_size(const std::optional<MicrobatchSize>& size);

  // For fit().
  FitResult run_loop(const FitOptions& fit_options);
  FitNumbers::Start begin_fit(FitOptions& fit_options);
  static bool sets_time_back(const FitOptions& fit_options, const FitNumbers::Start& start);
  void apply(FitOptions& fit_options, const FitNumbers::Start& start);
  void finish_fit();
  void check_can_fit() const;
  FitResult already_finished();
  StopRequestOptions request_options() const;
  void stop_before_first_batch(const Requests& asked);
  // Saves if requested. Returns true if training must stop.
  bool serve(const Requests& asked);
  void save_at_last();
  void log_times();
  // Whether a failed save need not end training, because a stop was requested: the last save is
  // still to come, and its error counts.
  bool excuses(const Error& failed_save);
};

}  // namespace cairn
