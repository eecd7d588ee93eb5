#include "train/loop/fit_loop.h"

#include <torch/torch.h>

#include <algorithm>

#include "cairn/error.h"
#include "cairn/train/rng.h"

#include "dist/group.h"
#include "train/data/data_position.h"
#include "train/data/data_spec.h"
#include "train/engine/saves_at.h"
#include "train/loop/failure.h"
#include "train/state/gather/checkpoint_metadata.h"
#include "train/state/random/base_seed.h"

namespace cairn {

bool is_training_over(const State& state) {
  const std::optional<Time>& max = state.max_duration;
  return max && state.timestamp.get(max->unit()) >= *max;
}
namespace {

RankBatch::Sum sum_of(const LoopContext& context) {
  return context.group == nullptr ? RankBatch::Sum() : RankBatch::Sum(&dist::sum);
}

bool may_change_batch(const State& state) {
  const auto may_change = [](const auto& one) { return one->may_change_batch(); };
  return std::ranges::any_of(state.callbacks, may_change) ||
         std::ranges::any_of(state.algorithms, may_change);
}

// Throws UsageError if the run ends after a number of tokens, and no token has been counted yet.
void refuse_to_count_no_tokens(const State& state) {
  const Time& max = *state.max_duration;
  const bool in_iterations = max.unit() == TimeUnit::kIteration;
  const TimeUnit counted = in_iterations ? state.iteration_length->unit() : max.unit();
  if (counted != TimeUnit::kToken || state.timestamp.token > 0) return;
  throw UsageError((in_iterations
                        ? "state.iteration_length is " + state.iteration_length->to_string()
                        : "max_duration is " + max.to_string()) +
                   ", and the train data loader's batches count no tokens, so that training would "
                   "never end: set DataSpec::get_num_tokens_in_batch, or give it in another unit");
}

void add_duration(Timestamp& now, TimeDelta of_batch) {
  now.total_wct = now.total_wct + of_batch;
  now.iteration_wct = now.iteration_wct + of_batch;
  now.epoch_wct = now.epoch_wct + of_batch;
  now.batch_wct = now.batch_wct + of_batch;
}

void log_time(LoopContext& context) {
  const Timestamp& now = context.state.timestamp;
  Dict metrics{{"time/epoch", now.epoch},
               {"time/batch", now.batch},
               {"time/sample", now.sample},
               {"time/batch_in_epoch", now.batch_in_epoch},
               {"time/sample_in_epoch", now.sample_in_epoch}};
  if (now.token > 0) {
    metrics.set("time/token", now.token);
    metrics.set("time/token_in_epoch", now.token_in_epoch);
  }
  context.logger.log_metrics(metrics);
}

void log_microbatch_size(LoopContext& context) {
  const auto size = microbatch_size(context.state);
  if (size) context.logger.log_metrics(Dict{{"trainer/device_train_microbatch_size", *size}});
}

// Whether some code reads state.total_loss_dict at the end of this batch.
bool needs_losses(const State& state) {
  const auto needs = [&state](const auto& each) { return each->needs_losses(state); };
  return std::ranges::any_of(state.callbacks, needs) ||
         std::ranges::any_of(state.algorithms, needs);
}

}  // namespace

FitLoop::FitLoop(LoopContext& context, EvalLoop& evaluators, FitLoopOptions options)
    : context_(context),
      evaluators_(evaluators),
      options_(std::move(options)),
      rank_batch_(sum_of(context)),
      trainer_(context, rank_batch_),
      losses_(context) {}

bool FitLoop::run() {
  try {
    return run_to_end();
  } catch (...) {
    losses_.publish_after_failure();  // They help to find the cause.
    throw;
  }
}

bool FitLoop::run_to_end() {
  known_max_duration_ = context_.state.max_duration;
  start();
  go_to_position();
  State& state = context_.state;
  state.model->module().train();
  last_batch_end_ = Clock::now();
  // A checkpoint at the last batch or epoch of an iteration was written before the iteration ended.
  // If the checkpoint has more epochs than an iteration has, it comes from a run with another
  // iteration_length.
  const bool has_last_epoch = state.timestamp.batch_in_epoch == 0 &&
                              is_iteration_over(TimeUnit::kEpoch) &&
                              state.timestamp.epoch_in_iteration == state.iteration_length->value();
  if (has_last_epoch || is_iteration_over(TimeUnit::kToken)) end_iteration();
  while (!interrupted_) {
    agree_on_end();
    if (is_training_over(state)) break;
    run_epoch();
  }
  drop_gradients(*state.optimizer);
  if (!is_observed()) losses_.add(trainer_.losses(), {});
  losses_.publish(/*all=*/true);
  if (interrupted_) return false;
  if (options_.serve_at_end) options_.serve_at_end();
  finish();
  return true;
}

void FitLoop::start() {
  if (context_.logging() && !context_.state.algorithms.empty()) {
    Dict enabled;
    for (const auto& algorithm : context_.state.algorithms) {
      enabled.set("enabled_algorithms/" + algorithm->name(), true);
    }
    context_.logger.log_hyperparameters(enabled);
  }
  context_.engine.run_event(Event::kFitStart);
}

void FitLoop::go_to_position() {
  State& state = context_.state;
  seed_loader(state, *state.train_dataloader.dataloader);
  state.train_dataloader.dataloader->set_device(context_.device);
  if (options_.check_loader && options_.spin_dataloaders) {
    check_loader(state, context_.logger, options_.resumed_from);
  }
  if (state.timestamp.batch_in_epoch == 0) {
    if (options_.rng) {
      restore_rng_states(*options_.rng);
    } else if (state.timestamp.batch == 0 && options_.spin_dataloaders) {
      for (std::size_t i = 0; i < state.evaluators.size(); ++i)
        draw_base_seed();
    }
    return;
  }
  if (options_.spin_dataloaders) {
    next_batch_ = state.timestamp.batch_in_epoch;
    dealt_length_ = seek_in_epoch(state, context_.logger, next_batch_, options_.rng);
    context_.train_loader_left = false;
  } else {
    if (options_.rng) restore_rng_states(*options_.rng);
    start_loader();
  }
  loader_started_ = true;
}

// Message 5 of rank_batch.h. Also sent between batches, and is empty then. stop_training() may be
// called on one rank only, by a callback that looks at a clock or a file.
void FitLoop::agree_on_end(RankBatch::End own) {
  State& state = context_.state;
  if (context_.group == nullptr) return;
  own.stops = is_training_over(state) || std::exchange(stop_waits_, false);
  if (options_.requests != nullptr) {
    if (!own.stops && options_.poll_requests) options_.poll_requests();
    own.asked = *options_.requests;
  }
  const RankBatch::End all = rank_batch_.end(own);
  if (!own.losses.empty()) losses_.publish_message(all.losses);
  if (options_.requests != nullptr) *options_.requests = all.asked;
  add_duration(state.timestamp, TimeDelta::of(all.duration));
  end_together(all.stops);
}

// Ranks that have called stop_training(), each at its time, and the others then have the same end.
void FitLoop::end_together(bool any_stops) {
  State& state = context_.state;
  if (any_stops) state.max_duration = known_max_duration_;
  if (any_stops && !is_training_over(state)) state.stop_training();
  ends_ = is_training_over(state);
  known_max_duration_ = state.max_duration;
}

bool FitLoop::is_iteration_over(TimeUnit unit) const {
  const std::optional<Time>& length = context_.state.iteration_length;
  if (!length || length->unit() != unit) return false;
  const Timestamp& now = context_.state.timestamp;
  const bool in_epochs = unit == TimeUnit::kEpoch;
  return (in_epochs ? now.epoch_in_iteration : now.token_in_iteration) >= length->value();
}

void FitLoop::run_epoch() {
  State& state = context_.state;
  const bool at_start = state.timestamp.batch_in_epoch == 0;
  if (at_start && state.timestamp.epoch_in_iteration == 0) {
    context_.engine.run_event(Event::kIterationStart);
  }
  if (at_start) {
    context_.engine.run_event(Event::kEpochStart);
    if (context_.logging()) {
      context_.logger.log_metrics(Dict{{"time/epoch", state.timestamp.epoch}});
    }
  }
  if (!loader_started_) start_loader();
  loader_started_ = false;
  const bool exhausted = train_batches();
  if (interrupted_) return;
  if (exhausted || epoch_length() == state.timestamp.batch_in_epoch) end_epoch();
}

void FitLoop::start_loader() {
  start_epoch(context_.state);
  next_batch_ = 0;
  context_.train_loader_left = false;
}

// An epoch that continued with another number of ranks has its own length.
std::optional<std::int64_t> FitLoop::epoch_length() const {
  return dealt_length_ ? dealt_length_ : context_.state.dataloader_len;
}

// Returns true if the loader has no more batches, false if the loop was left before.
bool FitLoop::train_batches() {
  State& state = context_.state;
  const bool from_start = next_batch_ == 0;
  const bool is_alone = context_.group == nullptr;
  bool stops = false;  // A save of the last batch has called stop_training() on this rank.
  for (bool any = false;; any = true) {
    const RankBatch::Begin all = begin_batch(stops);
    if (all.stops) return false;
    if (!all.has_batch) {
      if (any || !from_start) return true;
      throw UsageError("the train data loader gave no batch in epoch " +
                       std::to_string(state.timestamp.epoch) + "; training would never end");
    }
    train_batch(all);
    stops = is_training_over(state);
    if (is_alone ? stops : ends_) return false;
    if (is_alone && options_.poll_requests) options_.poll_requests();
    const Requests* const asked = options_.requests;
    if (asked != nullptr && (asked->save || asked->stop)) losses_.publish(/*all=*/true);
    interrupted_ = options_.serve_requests && options_.serve_requests();
    if (interrupted_) return false;
    if (is_iteration_over(TimeUnit::kToken)) {
      end_iteration();
      loader_started_ = true;  // The epoch continues where it is.
      return false;
    }
  }
}

// Fetches state.batch, and sends message 1 of rank_batch.h if it is needed. As in Composer, an
// epoch continues as long as every rank has a batch.
RankBatch::Begin FitLoop::begin_batch(bool stops) {
  State& state = context_.state;
  if (stops && rank_batch_.has_begun()) {  // The others learn of it in message 5.
    state.max_duration = known_max_duration_;
    stop_waits_ = true;
    stops = false;
  }
  std::optional<Batch> batch;
  if (!stops) {
    context_.engine.run_event(Event::kBeforeDataloader);
    batch = fetch();
  }
  if (batch) {
    state.batch = std::move(*batch);
    state.outputs = Outputs();  // Drop the outputs of the last batch.
    transform_batch(context_, state.train_dataloader);
  }
  const RankBatch::Begin all = rank_batch_.begin([&] {
    RankBatch::Begin own = batch ? begin_of(state.batch) : RankBatch::Begin();
    own.stops = stops;
    return own;
  });
  if (all.has_batch && !batch)
    throw UsageError("the train data loader's peek() showed a batch that next() does not give");
  if (all.stops) end_together(/*any_stops=*/true);
  return all;
}

RankBatch::Begin FitLoop::begin_of(const Batch& batch) {
  State& state = context_.state;
  const DataSpec& spec = state.train_dataloader;
  const std::int64_t tokens = num_tokens_in_batch(spec, batch);
  if (tokens == 0 && !spec.get_num_tokens_in_batch) refuse_to_count_no_tokens(state);
  return {.has_batch = true,
          .samples = num_samples_in_batch(spec, batch),
          .tokens = tokens,
          .needs_losses = needs_losses(state),
          .may_change = may_change_batch(state),
          .join = context_.group == nullptr ? RankBatch::Join() : trainer_.own_join(batch)};
}

// The content of the next message 1, if it is known before evaluations and saves.
std::optional<RankBatch::Begin> FitLoop::foresee_batch() {
  State& state = context_.state;
  const DataSpec& spec = state.train_dataloader;
  if (is_training_over(state) || may_change_batch(state) || spec.batch_transforms)
    return std::nullopt;
  if (context_.train_loader_left) return std::nullopt;
  if (epoch_length() && next_batch_ >= *epoch_length()) return std::nullopt;
  const PhaseTimer timer(context_.times, Phase::kData);
  const Batch* const batch = spec.dataloader->peek();
  if (batch == nullptr) return std::nullopt;
  try {
    return begin_of(*batch);
  } catch (...) {
    return std::nullopt;  // Message 1 throws it, after the saves of this batch.
  }
}

std::optional<Batch> FitLoop::fetch() {
  State& state = context_.state;
  if (epoch_length() && next_batch_ >= *epoch_length()) return std::nullopt;
  const PhaseTimer timer(context_.times, Phase::kData);
  std::optional<Batch> batch = around_batch(context_, "the data loader", [&] {
    if (context_.train_loader_left) {
      dealt_length_ = seek_in_epoch(state, context_.logger, next_batch_, std::nullopt);
      context_.train_loader_left = false;
    }
    return state.train_dataloader.dataloader->next();
  });
  if (batch) ++next_batch_;
  return batch;
}

// Trains on state.batch. `all`: the answer to message 1.
void FitLoop::train_batch(const RankBatch::Begin& all) {
  State& state = context_.state;
  context_.engine.run_event(Event::kAfterDataloader);
  context_.engine.run_event(Event::kBatchStart);
  if (context_.logging()) log_time(context_);
  trainer_.train();
  if (is_observed()) {
    const bool is_alone = context_.group == nullptr;
    losses_.add(trainer_.losses(), is_alone ? state.train_metrics : Metrics());
    if (context_.logging()) log_microbatch_size(context_);
    if (all.needs_losses || context_.group == nullptr) losses_.publish(/*all=*/all.needs_losses);
  }
  const bool steps = options_.step_schedulers_every_batch;
  if (steps && !state.schedulers_step_after_time) step_schedulers();
  if (context_.group != nullptr)
    compute_metrics(context_, state.dataloader_label, state.train_metrics);
  const std::chrono::microseconds uncounted = advance(all.samples, all.tokens);
  if (steps && state.schedulers_step_after_time) step_schedulers();
  context_.engine.run_event(Event::kBatchEnd);
  if (context_.group != nullptr) {
    RankBatch::End own;
    own.duration = uncounted;
    if (!all.needs_losses) own.losses = losses_.message();
    own.next = foresee_batch();
    agree_on_end(std::move(own));
  }
  evaluate(Event::kBatchEnd);
  checkpoint(Event::kBatchCheckpoint);
}

// Whether anything may read the losses and metrics of this batch. The result is the same on every
// rank, as the ranks read together.
bool FitLoop::is_observed() const {
  if (context_.group != nullptr) return true;
  return !context_.state.callbacks.empty() || !context_.state.algorithms.empty();
}

// Schedulers read max_duration. If stop_training() has shortened it, the other ranks may not know
// that yet. Schedulers then read the last one that all ranks know, so that rates are the same on
// all ranks.
void FitLoop::step_schedulers() {
  State& state = context_.state;
  const std::optional<Time> own = state.max_duration;
  if (context_.group != nullptr && is_training_over(state)) {
    state.max_duration = known_max_duration_;
  }
  for (const auto& scheduler : state.schedulers)
    scheduler->step();
  state.max_duration = own;
}

// Returns the time of the batch if it is not counted yet. In a job of several processes, rank 0's
// time counts, so that intervals in seconds agree. The ranks know it after message 5.
std::chrono::microseconds FitLoop::advance(std::int64_t samples, std::int64_t tokens) {
  State& state = context_.state;
  const Clock::time_point now = Clock::now();
  const auto own = std::chrono::duration_cast<std::chrono::microseconds>(now - last_batch_end_);
  last_batch_end_ = now;
  const bool is_alone = context_.group == nullptr;
  const TimeDelta counted = is_alone ? TimeDelta::of(own) : TimeDelta();
  state.previous_timestamp = state.timestamp;
  move_to(state.timestamp.to_next_batch(samples, tokens, counted));
  return is_alone || dist::rank() != 0 ? std::chrono::microseconds(0) : own;
}

void FitLoop::move_to(const Timestamp& next) {
  context_.state.timestamp = next;
  if (options_.on_time_advanced) options_.on_time_advanced();
}

// Evaluation does not count as training time.
void FitLoop::evaluate(Event event) {
  if (context_.state.evaluators.empty()) return;
  const Clock::time_point before = Clock::now();
  const std::vector<std::size_t> due = evaluators_.find_due(event);
  if (!due.empty()) {
    losses_.publish(/*all=*/true);
    const PhaseTimer timer(context_.times, Phase::kEvaluation);
    evaluators_.run(due);
    agree_on_end();  // Its events may call stop_training().
  }
  last_batch_end_ += Clock::now() - before;
}

void FitLoop::checkpoint(Event event) {
  // A run that resumes from here does not log them again. (Ranks may disagree about who saves.)
  const bool is_alone = context_.group == nullptr;
  if (is_alone && !losses_.is_empty() && saves_at(event, context_.state)) {
    losses_.publish(/*all=*/true);
  }
  const PhaseTimer timer(context_.times, Phase::kSaving);
  try {
    context_.engine.run_event(event);
  } catch (const dist::DistError&) {
    throw;
  } catch (const Error& error) {
    const bool is_served = !is_training_over(context_.state) && options_.excuses_failed_save;
    if (!is_served || !options_.excuses_failed_save(error)) throw;
  }
}

void FitLoop::end_epoch() {
  State& state = context_.state;
  refuse_to_count_no_tokens(state);
  losses_.publish(/*all=*/true);
  dealt_length_.reset();
  loader_started_ = false;
  compute_metrics(context_, state.dataloader_label, state.train_metrics);
  const bool steps = !options_.step_schedulers_every_batch;
  if (steps && !state.schedulers_step_after_time) step_schedulers();
  // After a resume at the last batch of an epoch, no batch was trained yet. Intervals in epochs
  // must still see this epoch end.
  if (!state.previous_timestamp) state.previous_timestamp = state.timestamp;
  move_to(state.timestamp.to_next_epoch());
  if (steps && state.schedulers_step_after_time) step_schedulers();
  context_.engine.run_event(Event::kEpochEnd);
  agree_on_end();
  evaluate(Event::kEpochEnd);
  checkpoint(Event::kEpochCheckpoint);
  if (is_iteration_over(TimeUnit::kEpoch)) end_iteration();
}

void FitLoop::end_iteration() {
  State& state = context_.state;
  state.previous_timestamp = state.timestamp;
  move_to(state.timestamp.to_next_iteration());
  context_.engine.run_event(Event::kIterationEnd);
  agree_on_end();
  evaluate(Event::kIterationEnd);
  checkpoint(Event::kIterationCheckpoint);
}

void FitLoop::finish() {
  if (context_.logging()) log_time(context_);
  context_.engine.run_event(Event::kFitEnd);
  const PhaseTimer timer(context_.times, Phase::kEvaluation);
  evaluators_.run(evaluators_.find_due(Event::kFitEnd));
}

}  // namespace cairn
