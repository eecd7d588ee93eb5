#include "cairn/callbacks/early_stopper.h"

#include <cmath>
#include <utility>

#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"

#include "callbacks/watched_metric.h"

namespace cairn {
namespace {

WatchedMetric metric_of(const EarlyStopperOptions& options) {
  return {.callback = "EarlyStopper",
          .monitor = options.monitor,
          .dataloader_label = options.dataloader_label};
}

}  // namespace

EarlyStopper::EarlyStopper(EarlyStopperOptions options) : options_(std::move(options)) {
  metric_of(options_).check();
  const TimeUnit unit = options_.patience.time().unit();
  if (unit != TimeUnit::kEpoch && unit != TimeUnit::kBatch) {
    throw UsageError("EarlyStopper: patience is in epochs or batches, not " +
                     options_.patience.time().to_string());
  }
  if (!options_.comp) {
    options_.comp = default_comparison(options_.monitor);
  }
}

// Ends a fit() that patience had ended before the run was restarted. A later fit() trains on.
void EarlyStopper::fit_start(State& state, Logger& logger) {
  metric_of(options_).check(state, logger);
  if (stopped_fit_ == number_of_fit(state) && is_patience_over(state)) stop(state, logger);
}

void EarlyStopper::eval_end(State& state, Logger& logger) {
  if (state.dataloader_label == options_.dataloader_label) update(state, logger);
}

void EarlyStopper::epoch_end(State& state, Logger& logger) {
  if (state.dataloader_label == options_.dataloader_label) update(state, logger);
}

void EarlyStopper::update(State& state, Logger& logger) {
  const double value = metric_of(options_).value(state);
  const bool is_better =
      !best_ || (options_.comp(value, *best_) && std::abs(value - *best_) > options_.min_delta);
  if (is_better) {
    best_ = value;
    best_occurred_ = state.timestamp;
    return;
  }
  if (is_patience_over(state)) stop(state, logger);
}

bool EarlyStopper::is_patience_over(const State& state) const {
  const Time& patience = options_.patience.time();
  return state.timestamp.get(patience.unit()) - best_occurred_.get(patience.unit()) > patience;
}

void EarlyStopper::stop(State& state, Logger& logger) {
  logger.log_message("EarlyStopper: " + options_.monitor + " has not improved since " +
                     best_occurred_.get(options_.patience.time().unit()).to_string() +
                     "; training ends");
  stopped_fit_ = number_of_fit(state);
  state.stop_training();
}

Value EarlyStopper::state_dict() const {
  Dict state = {{"best", None{}}, {"best_occurred", None{}}, {"stopped_fit", stopped_fit_}};
  if (best_) {
    state["best"] = *best_;
    state["best_occurred"] = best_occurred_.state_dict();
  }
  return state;
}

void EarlyStopper::load_state_dict(const Value& state) {
  const Value* best = state.is_dict() ? state.find("best") : nullptr;
  if (best == nullptr || best->is_none()) {  // None, or Composer's state, which is empty
    best_.reset();
    stopped_fit_ = 0;
    return;
  }
  const Value* occurred = state.find("best_occurred");
  if (best->kind() != Kind::kFloat || occurred == nullptr) {
    throw MismatchError("EarlyStopper's state has no best value with its time");
  }
  const Value* fit = state.find("stopped_fit");
  const Value* stopped = state.find("stopped");  // older files have this, or neither of the two
  best_occurred_ = Timestamp::from_value(*occurred);
  best_ = best->as_float();
  const bool is_stopped = stopped != nullptr && stopped->get_if<bool>() && stopped->as_bool();
  stopped_fit_ = fit != nullptr && fit->is_int() ? fit->as_int() : std::int64_t{is_stopped};
}

}  // namespace cairn
