// FitLoop: training until max_duration (Composer's _train_loop; the order of events is a test).
//
//  1. fit_start.
//  2. Go to the position: between epochs the loaded generators are restored now; inside an epoch
//     the loader seeks first (data_position.h). From here nothing is drawn that a run never
//     stopped would not have drawn. A run that begins draws what Composer draws (base_seed.h).
//     A checkpoint of an iteration's last batch or epoch: the iteration is ended.
//  3. Until max_duration: [iteration_start] [epoch_start], then batches. A checkpoint of an epoch's
//     last batch has none left: the epoch is ended, and nothing is trained.
//  4. Each batch: before_dataloader, fetch, after_dataloader, batch_start, the optimizer step
//     (train_batch.h), schedulers (before time advances, so that rates lag one batch as in
//     Composer), time advances, batch_end, evaluators, batch_checkpoint, then what was asked from
//     outside (save now; save and stop).
//  5. An epoch that is exhausted, or was left at its last batch: metrics, schedulers, time,
//     epoch_end, evaluators, epoch_checkpoint.
//     Of several processes each has batches of its own: counts are summed, losses averaged, and the
//     first rank that has no more batches ends the epoch for all. Whoever calls stop_training()
//     stops all, before the next thing that depends on it.
//  6. What was asked before training and is not served yet; fit_end, then the evaluators that are
//     due at the end.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "cairn/error.h"

#include "train/loop/eval_loop.h"
#include "train/loop/loop_context.h"
#include "train/loop/train_batch.h"

namespace cairn {

// Whether time has reached max_duration; false without one.
bool is_training_over(const State& state);

struct FitLoopOptions {
  bool spin_dataloaders = true;
  bool step_schedulers_every_batch = true;
  bool check_loader = false;                // the position comes from a loaded checkpoint
  std::string resumed_from = {};            // the one that autoresume found; empty without
  std::optional<Value> rng = std::nullopt;  // generators of the loaded checkpoint
  // Called whenever time moves on: what was loaded for the position is used up. May be empty.
  std::function<void()> moved_on = nullptr;
  // Asked after each batch that is not the last: serves what was asked from outside (save now)
  // and says whether to stop. May be empty.
  std::function<bool()> serve_requests = nullptr;
  // Called when training has finished, before fit_end: serves what was asked before the first batch
  // and is not served yet. May be empty.
  std::function<void()> serve_at_end = nullptr;
  // Asked when a checkpoint event failed: true when serve_requests, which comes next, will save and
  // stop, so that this error need not end training. May be empty.
  std::function<bool(const Error&)> excuses_failed_save = nullptr;
};

class FitLoop {
 public:
  FitLoop(LoopContext& context, EvalLoop& evaluators, FitLoopOptions options)
      : context_(context),
        evaluators_(evaluators),
        options_(std::move(options)),
        trainer_(context) {}

  // False when a request to stop ended it; then fit_end did not happen.
  bool run();

 private:
  using Clock = std::chrono::steady_clock;

  void start();
  void go_to_position();
  void run_epoch();
  bool train_batches();
  std::optional<Batch> fetch();
  void start_loader();
  void train_batch(Batch batch);
  void log_time();
  void log_losses();
  void step_schedulers();
  void advance(std::int64_t samples, std::int64_t tokens);
  void move_to(const Timestamp& next);
  void evaluate(Event event);
  void checkpoint(Event event);
  void end_epoch();
  void end_iteration();
  void finish();
  void refuse_to_count_no_tokens() const;
  bool ends_now();
  void agree_on_end();
  bool is_observed() const;
  bool is_iteration_over(TimeUnit unit) const;
  std::optional<std::int64_t> epoch_length() const;

  LoopContext& context_;
  EvalLoop& evaluators_;
  FitLoopOptions options_;
  BatchTrainer trainer_;
  std::int64_t next_batch_ = 0;  // of the loader, in the epoch
  bool loader_started_ = false;
  std::optional<std::int64_t> dealt_length_;  // in batches, of this epoch (data_position.h, step 5)
  bool interrupted_ = false;
  Clock::time_point last_batch_end_;
};

}  // namespace cairn
