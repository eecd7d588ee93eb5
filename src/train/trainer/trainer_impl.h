// The parts of a Trainer and how it is put together.
//
// Construction, in Composer's order:
//  0. several processes meet (dist::initialize()), take rank 0's seed, and its run name
//     where they have none, and compare their options and models (rank_facts.h)
//  1. device, precision, determinism; the model moves to the device
//  2. the seed seeds every generator
//  3. the model is sharded (parallelism_config); optimizer; run name
//  4. loggers, then callbacks, then a CheckpointSaver when save_folder is set and there is none;
//     that no saver writes another's files; the first line: what the process computes with, and how
//     many threads
//  5. init
//  6. hyperparameters; metrics and evaluators; the train loader; schedulers; gradient scaler
//  7. before_load; the newest checkpoint (autoresume) or load_path; its generators are kept aside
//     (State::CheckpointForm) until fit() has trained from the position: one that fails before is
//     to begin there again; after_load
//     Of several processes: all are at the position that rank 0 found, and have its weights
//  8. the generators are seeded again, with the loaded seed when there is one; each rank's with the
//     seed and its number
#pragma once

#include <exception>
#include <functional>
#include <optional>

#include "cairn/train/trainer.h"

#include "train/engine/engine.h"
#include "train/engine/signal_watch.h"
#include "train/engine/stop_request.h"
#include "train/loop/eval_loop.h"
#include "train/loop/loop_context.h"
#include "train/trainer/fit_numbers.h"

namespace cairn {

class CheckpointSaver;

// One UsageError that lists what no Trainer could follow (resolve.cpp).
void check(const FitOptions& options);

struct Trainer::Impl {
  struct Outside {                        // what is asked from there
    std::optional<SignalWatch> signals;   // from construction to close(); with handle_signals
    std::optional<StopRequest> requests;  // from the first fit() to close(); none without signals
    Requests unserved;  // taken, and not served: of a fit() that threw, or asked nobody
  };
  struct Resumed {
    std::string from;       // LoadOutcome's
    bool is_there = false;  // the position is that of a checkpoint; no batch was trained since
  };

  explicit Impl(TrainerOptions resolved_options);

  FitResult fit(FitOptions fit_options);
  // Around eval() and predict() of their own: nobody serves a SIGTERM that comes there, or came
  // before any fit(). One that came during the last batch of a fit() is the next fit()'s.
  void unattended(const std::function<void()>& work);
  CheckpointSaver* reference_saver() const;  // the first one; null without
  // All of them, also when one throws; then throws what the first one threw.
  void for_each_saver(const std::function<void(CheckpointSaver&)>& act);
  void finish_saves();
  void leave_together();

  TrainerOptions options;  // resolved
  Outside outside;
  State state;
  Logger logger{state};
  Engine engine{state, logger};
  LoopContext context{state, logger, engine};
  EvalLoop evaluators{context};
  HandleList<Scheduler> schedulers;  // state.schedulers refer to them
  bool step_schedulers_every_batch = true;
  Resumed resumed;
  bool trained = false;     // a fit() has begun: its position is not that of the file any more
  bool ended_well = false;  // the last fit(), on all ranks
  int exceptions_around = std::uncaught_exceptions();  // when this was made
  FitNumbers fit_numbers;

 private:
  class Setup;  // construction (trainer_setup.cpp)

  // Both construction and fit().
  void bind_train_dataloader(DataSpec dataloader, const std::string& label);
  void subset_train_dataloader(std::int64_t batches);
  void set_schedulers(const HandleList<Scheduler>& list, double ratio,
                      std::optional<bool> every_batch);
  void scale_max_duration(double ratio);

  // fit().
  FitResult run_loop(const FitOptions& fit_options);
  FitNumbers::Start begin_fit(FitOptions& fit_options);
  static bool sets_time_back(const FitOptions& fit_options, const FitNumbers::Start& start);
  void apply(FitOptions& fit_options, const FitNumbers::Start& start);
  void finish_fit();
  void check_can_fit() const;
  bool is_done() const;
  FitResult already_finished();
  StopRequestOptions request_options() const;
  void stop_before_first_batch(const Requests& asked);
  // Saves when asked to; true when training is to stop.
  bool serve(const Requests& asked);
  void save_at_last();
  // Whether a save that failed need not end training, because a stop was asked for: the last save
  // is still to come, and its error counts.
  bool excuses(const Error& failed_save);
};

}  // namespace cairn
