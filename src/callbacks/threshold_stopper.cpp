#include "cairn/callbacks/threshold_stopper.h"

#include <utility>

#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"

#include "callbacks/watched_metric.h"

namespace cairn {
namespace {

WatchedMetric metric_of(const ThresholdStopperOptions& options) {
  return {.callback = "ThresholdStopper",
          .monitor = options.monitor,
          .dataloader_label = options.dataloader_label};
}

}  // namespace

ThresholdStopper::ThresholdStopper(ThresholdStopperOptions options) : options_(std::move(options)) {
  metric_of(options_).check();
  if (!options_.threshold) throw UsageError("ThresholdStopper needs threshold");
  if (!options_.comp) options_.comp = default_comparison(options_.monitor);
}

// Ends a fit() that had ended before the run was restarted. A later fit() trains on.
void ThresholdStopper::fit_start(State& state, Logger& logger) {
  metric_of(options_).check(state, logger);
  if (stopped_fit_ == number_of_fit(state) && options_.comp(value_, *options_.threshold)) {
    stop(state, logger, value_);
  }
}

bool ThresholdStopper::needs_losses(const State& state) const {
  return options_.stop_on_batch && state.dataloader_label == options_.dataloader_label &&
         dist::world_size() == 1;  // Ranks have computed the metrics by then.
}

void ThresholdStopper::batch_end(State& state, Logger& logger) {
  if (options_.stop_on_batch) compare(state, logger);
}

void ThresholdStopper::eval_end(State& state, Logger& logger) { compare(state, logger); }

void ThresholdStopper::epoch_end(State& state, Logger& logger) { compare(state, logger); }

void ThresholdStopper::compare(State& state, Logger& logger) {
  if (state.dataloader_label != options_.dataloader_label) return;
  const double value = metric_of(options_).value(state);
  if (options_.comp(value, *options_.threshold)) stop(state, logger, value);
}

void ThresholdStopper::stop(State& state, Logger& logger, double value) {
  logger.log_message("ThresholdStopper: " + options_.monitor + " is " + format_log_value(value) +
                     ", past " + format_log_value(*options_.threshold) + "; training ends");
  stopped_fit_ = number_of_fit(state);
  value_ = value;
  state.stop_training();
}

Value ThresholdStopper::state_dict() const {
  return Dict{{"stopped_fit", stopped_fit_}, {"value", value_}};
}

void ThresholdStopper::load_state_dict(const Value& state) {
  const Value* fit = state.is_dict() ? state.find("stopped_fit") : nullptr;
  if (fit == nullptr) {  // Composer's state is empty.
    stopped_fit_ = 0;
    return;
  }
  const Value* value = state.find("value");
  if (!fit->is_int() || value == nullptr || value->kind() != Kind::kFloat) {
    throw MismatchError("ThresholdStopper's state has no number of a fit() with a value");
  }
  stopped_fit_ = fit->as_int();
  value_ = value->as_float();
}

}  // namespace cairn
