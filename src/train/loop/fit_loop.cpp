#include "train/loop/fit_loop.h"

#include <torch/torch.h>

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

struct Counts {
  std::int64_t samples = 0;
  std::int64_t tokens = 0;
};

// Whether every rank has a batch: as in Composer, training continues as long as this is so.
bool all_ranks_have(bool batch) {
  if (dist::group() == nullptr) return batch;
  return dist::sum({batch ? 0.0 : 1.0}, "fetching a batch")[0] == 0;
}

Counts sum_over_ranks(const Counts& own) {
  if (dist::group() == nullptr) return own;
  const auto sums = dist::sum({static_cast<double>(own.samples), static_cast<double>(own.tokens)},
                              "counting a batch's samples");
  return {static_cast<std::int64_t>(sums[0]), static_cast<std::int64_t>(sums[1])};
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

bool FitLoop::run() {
  try {
    return run_to_end();
  } catch (...) {
    publish_after_failure();
    throw;
  }
}

// The losses before a failure help to find its cause.
void FitLoop::publish_after_failure() noexcept {
  if (context_.group != nullptr) return;  // The other ranks do not publish with this one.
  try {
    publish_losses(/*wait=*/true);
  } catch (...) {  // The failure itself is reported.
  }
}

bool FitLoop::run_to_end() {
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
  while (!interrupted_ && !ends_now())
    run_epoch();
  drop_gradients(*state.optimizer);
  if (!is_observed()) trainer_.send_losses();
  publish_losses(/*wait=*/true);
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

// stop_training() may be called on one rank only, by a callback that looks at a clock or a file.
void FitLoop::agree_on_end() {
  if (context_.group == nullptr) return;
  const bool is_over = is_training_over(context_.state);
  const bool is_any = dist::sum({is_over ? 1.0 : 0.0}, "asking who stops training")[0] > 0;
  if (is_any && !is_over) context_.state.stop_training();
}

bool FitLoop::ends_now() {
  agree_on_end();
  return is_training_over(context_.state);
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
  for (bool any = false;; any = true) {
    context_.engine.run_event(Event::kBeforeDataloader);
    std::optional<Batch> batch = fetch();
    if (!all_ranks_have(batch.has_value())) {
      if (any || !from_start) return true;
      throw UsageError("the train data loader gave no batch in epoch " +
                       std::to_string(state.timestamp.epoch) + "; training would never end");
    }
    train_batch(std::move(*batch));
    if (ends_now()) return false;
    interrupted_ = options_.serve_requests && options_.serve_requests();
    if (interrupted_) return false;
    if (is_iteration_over(TimeUnit::kToken)) {
      end_iteration();
      loader_started_ = true;  // The epoch continues where it is.
      return false;
    }
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

void FitLoop::train_batch(Batch batch) {
  State& state = context_.state;
  const DataSpec& spec = state.train_dataloader;
  state.batch = std::move(batch);
  state.outputs = Outputs();  // Drop the outputs of the last batch.
  transform_batch(context_, spec);
  const std::int64_t samples = num_samples_in_batch(spec, state.batch);
  const std::int64_t tokens = num_tokens_in_batch(spec, state.batch);
  if (tokens == 0 && !spec.get_num_tokens_in_batch) refuse_to_count_no_tokens();
  const Counts all = sum_over_ranks({.samples = samples, .tokens = tokens});
  context_.engine.run_event(Event::kAfterDataloader);
  context_.engine.run_event(Event::kBatchStart);
  if (context_.logging()) log_time(context_);
  trainer_.train();
  if (is_observed()) {
    trainer_.send_losses();
    if (context_.logging()) log_microbatch_size(context_);
    publish_losses(/*wait=*/context_.group != nullptr || needs_losses(state));
  }
  agree_on_end();  // Schedulers read max_duration.
  const bool steps = options_.step_schedulers_every_batch;
  if (steps && !state.schedulers_step_after_time) step_schedulers();
  if (is_observed()) compute_metrics(context_, state.dataloader_label, state.train_metrics);
  advance(all.samples, all.tokens);
  if (steps && state.schedulers_step_after_time) step_schedulers();
  context_.engine.run_event(Event::kBatchEnd);
  agree_on_end();
  evaluate(Event::kBatchEnd);
  checkpoint(Event::kBatchCheckpoint);
}

// Throws UsageError if the run ends after a number of tokens, and no token has been counted yet.
void FitLoop::refuse_to_count_no_tokens() const {
  const State& state = context_.state;
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

// Whether anything may read the losses and metrics of this batch. The result is the same on every
// rank, as the ranks read together.
bool FitLoop::is_observed() const {
  if (context_.group != nullptr) return true;
  return !context_.state.callbacks.empty() || !context_.state.algorithms.empty();
}

// Losses are logged with their own batch as the step, also if they arrive later.
void FitLoop::publish_losses(bool wait) {
  State& state = context_.state;
  for (const auto& [batch, losses] : trainer_.take_losses(wait)) {
    for (const auto& [name, value] : losses)
      state.total_loss_dict.set("loss/train/" + name, value);
    if (context_.logging()) context_.logger.log_metrics(state.total_loss_dict, batch);
  }
}

void FitLoop::step_schedulers() {
  for (const auto& scheduler : context_.state.schedulers)
    scheduler->step();
}

void FitLoop::advance(std::int64_t samples, std::int64_t tokens) {
  State& state = context_.state;
  const Clock::time_point now = Clock::now();
  auto duration = std::chrono::duration_cast<std::chrono::microseconds>(now - last_batch_end_);
  last_batch_end_ = now;
  if (context_.group != nullptr) {  // Take rank 0's duration, so that intervals in seconds agree.
    const double own = dist::rank() == 0 ? static_cast<double>(duration.count()) : 0;
    duration = std::chrono::microseconds(
        static_cast<std::int64_t>(dist::sum({own}, "agreeing on the time")[0]));
  }
  state.previous_timestamp = state.timestamp;
  move_to(state.timestamp.to_next_batch(samples, tokens, TimeDelta::of(duration)));
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
    publish_losses(/*wait=*/true);
    const PhaseTimer timer(context_.times, Phase::kEvaluation);
    evaluators_.run(due);
  }
  agree_on_end();
  last_batch_end_ += Clock::now() - before;
}

void FitLoop::checkpoint(Event event) {
  if (trainer_.has_losses_under_way() && saves_at(event, context_.state)) {
    publish_losses(/*wait=*/true);  // A run that resumes from here does not log them again.
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
  refuse_to_count_no_tokens();
  publish_losses(/*wait=*/true);
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
