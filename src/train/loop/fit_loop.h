// FitLoop: trains until max_duration (Composer's _train_loop; a test checks the order of events).
//
//  1. fit_start.
//  2. Go to the position. Between epochs the loaded generators are restored now; inside an epoch
//     the loader seeks first (data_position.h). After this step, random numbers are drawn only
//     where an uninterrupted run draws them. A new run draws what Composer draws (base_seed.h). If
//     the checkpoint was taken at the last batch or epoch of an iteration, the iteration ends now.
//  3. Until max_duration: [iteration_start] [epoch_start], then batches. If the checkpoint was
//     taken at an epoch's last batch, no batch is left: the epoch ends without training.
//  4. Each batch: before_dataloader, fetch, after_dataloader, batch_start, the optimizer step
//     (train_batch.h), schedulers (before time advances, so that rates lag one batch as in
//     Composer), time advances, batch_end, evaluators, batch_checkpoint. Then requests from outside
//     (save; save and stop) are served.
//  5. The end of an epoch (it is exhausted, or was left at its last batch): metrics, schedulers,
//     time, epoch_end, evaluators, epoch_checkpoint. In a job of several processes each rank has
//     its own batches. Counts are summed and losses averaged. The first rank that has no more
//     batches ends the epoch for all. A stop_training() on one rank stops all ranks. rank_batch.h
//     says what the ranks tell each other in each batch.
//  6. Requests from before training that are not served yet; fit_end; then the evaluators that are
//     due at the end.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "cairn/error.h"

#include "train/engine/stop_request.h"
#include "train/loop/eval_loop.h"
#include "train/loop/loop_context.h"
#include "train/loop/rank_batch.h"
#include "train/loop/report/loss_report.h"
#include "train/loop/train_batch.h"

namespace cairn {

// Whether time has reached max_duration. False if there is no max_duration.
bool is_training_over(const State& state);

struct FitLoopOptions {
  bool spin_dataloaders = true;
  bool step_schedulers_every_batch = true;
  bool check_loader = false;                // The position comes from a loaded checkpoint.
  std::string resumed_from = {};            // The checkpoint that autoresume found; empty if none.
  std::optional<Value> rng = std::nullopt;  // Generators of the loaded checkpoint.
  // Called whenever time advances: values loaded for the position are then obsolete. May be empty.
  std::function<void()> on_time_advanced = nullptr;
  // Requests from outside (save) that are not served yet. May be null.
  Requests* requests = nullptr;
  // Called after each batch except the last: adds new requests to `requests`. May be empty.
  std::function<void()> poll_requests = nullptr;
  // Called after the saves of that batch: serves `requests`, and returns whether to stop. May be
  // empty.
  std::function<bool()> serve_requests = nullptr;
  // Called after training, before fit_end: serves requests from before the first batch that are not
  // served yet. May be empty.
  std::function<void()> serve_at_end = nullptr;
  // Called when a checkpoint event failed. Returns true if serve_requests, which is called next,
  // will save and stop, so that this error need not end training. May be empty.
  std::function<bool(const Error&)> excuses_failed_save = nullptr;
};

class FitLoop {
 public:
  FitLoop(LoopContext& context, EvalLoop& evaluators, FitLoopOptions options);

  // Returns false if a request to stop ended it; fit_end did not happen then.
  bool run();

 private:
  using Clock = std::chrono::steady_clock;

  bool run_to_end();
  void start();
  void go_to_position();
  void run_epoch();
  bool train_batches();
  RankBatch::Begin begin_batch(bool stops);
  RankBatch::Begin begin_of(const Batch& batch);
  std::optional<RankBatch::Begin> foresee_batch();
  std::optional<Batch> fetch();
  void start_loader();
  void train_batch(const RankBatch::Begin& all);
  void step_schedulers();
  std::chrono::microseconds advance(std::int64_t samples, std::int64_t tokens);
  void move_to(const Timestamp& next);
  void evaluate(Event event);
  void checkpoint(Event event);
  void end_epoch();
  void end_iteration();
  void finish();
  void agree_on_end(RankBatch::End own = {});
  void end_together(bool any_stops);
  bool is_observed() const;
  bool is_iteration_over(TimeUnit unit) const;
  std::optional<std::int64_t> epoch_length() const;

  LoopContext& context_;
  EvalLoop& evaluators_;
  FitLoopOptions options_;
  RankBatch rank_batch_;
  BatchTrainer trainer_;
  LossReport losses_;
  std::int64_t next_batch_ = 0;  // Number in the epoch of the loader's next batch.
  bool loader_started_ = false;
  std::optional<std::int64_t> dealt_length_;  // Batches in this epoch, if it was dealt anew
                                              // (data_position.h, step 5).
  bool interrupted_ = false;
  bool ends_ = false;  // For all ranks, as of their last message. Unused in one process.
  std::optional<Time> known_max_duration_;  // As of that message.
  bool stop_waits_ = false;  // This rank has called stop_training(); message 5 will say it.
  Clock::time_point last_batch_end_;
};

}  // namespace cairn
