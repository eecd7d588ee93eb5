#include "cairn/callbacks/early_stopper.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <utility>

#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"

namespace cairn {
namespace {

std::string in_lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool is_better_when_less(const std::string& name) {
  const std::string metric = in_lower_case(name);
  static constexpr std::array kWords = {"loss", "error", "perplexity", "crossentropy"};
  return std::any_of(kWords.begin(), kWords.end(), [&metric](const char* word) {
    return metric.find(word) != std::string::npos;
  });
}

// The number of the current fit() in this run, counted from 1.
std::int64_t number_of_fit(const State& state) {
  if (!state.fit_calls) return 1;
  return state.fit_calls->finished + static_cast<std::int64_t>(state.fit_calls->current) + 1;
}

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

// The metrics of the training data or of an evaluator; nullptr if no data has that label.
const Metrics* find_metrics(const State& state, const std::string& label) {
  if (label == state.dataloader_label) return &state.train_metrics;
  const auto found = std::ranges::find(state.eval_metrics, label,
                                       &decltype(state.eval_metrics)::value_type::first);
  return found == state.eval_metrics.end() ? nullptr : &found->second;
}

[[noreturn]] void refuse_label(const State& state, const std::string& label) {
  std::string known = quoted(state.dataloader_label) + " (the training data)";
  for (const auto& [each, metrics] : state.eval_metrics)
    known += ", " + quoted(each);
  throw UsageError("EarlyStopper: dataloader_label is " + quoted(label) +
                   ", and this fit() has no such data. Its labels are " + known +
                   (state.eval_metrics.empty() ? "; set eval_dataloader for others" : ""));
}

[[noreturn]] void refuse_monitor(const Metrics& metrics, const EarlyStopperOptions& options) {
  std::string known;
  for (const auto& [name, metric] : metrics)
    known += (known.empty() ? "" : ", ") + quoted(name);
  throw UsageError("EarlyStopper: there is no metric " + quoted(options.monitor) + " of " +
                   quoted(options.dataloader_label) + ", which has " +
                   (known.empty() ? "none" : known));
}

bool is_never(const std::optional<Interval>& interval) {
  return interval && interval->time() != nullptr && interval->time()->value() == 0;
}

}  // namespace

Comparison::Comparison(const char* name) {
  const std::string known = in_lower_case(name);
  if (known == "less" || known == "lt") {
    function_ = std::less<double>();
  } else if (known == "greater" || known == "gt") {
    function_ = std::greater<double>();
  } else {
    throw UsageError(std::string("EarlyStopper: comp is \"") + name +
                     "\"; give \"less\" (\"lt\"), \"greater\" (\"gt\") or a function");
  }
}

EarlyStopper::EarlyStopper(EarlyStopperOptions options) : options_(std::move(options)) {
  if (options_.monitor.empty() || options_.dataloader_label.empty()) {
    throw UsageError("EarlyStopper needs monitor and dataloader_label");
  }
  const TimeUnit unit = options_.patience.time().unit();
  if (unit != TimeUnit::kEpoch && unit != TimeUnit::kBatch) {
    throw UsageError("EarlyStopper: patience is in epochs or batches, not " +
                     options_.patience.time().to_string());
  }
  if (!options_.comp) {
    options_.comp = is_better_when_less(options_.monitor) ? "less" : "greater";
  }
}

// Finds mistakes in the options before training. Without this check the stopper would do nothing,
// or fail after the first evaluation.
void EarlyStopper::check(const State& state, Logger& logger) const {
  const std::string& label = options_.dataloader_label;
  const Metrics* metrics = find_metrics(state, label);
  if (metrics == nullptr) refuse_label(state, label);
  if (std::ranges::find(*metrics, options_.monitor, &Metrics::value_type::first) ==
      metrics->end()) {
    refuse_monitor(*metrics, options_);
  }
  for (const Evaluator& evaluator : state.evaluators) {
    if (evaluator.label != label || !is_never(evaluator.eval_interval)) continue;
    logger.log_message("warning: EarlyStopper watches " + quoted(label) +
                       ", whose eval_interval is 0: it can stop training only in eval()");
  }
}

// Ends a fit() that patience had ended before the run was restarted. A later fit() trains on.
void EarlyStopper::fit_start(State& state, Logger& logger) {
  check(state, logger);
  if (stopped_fit_ == number_of_fit(state) && is_patience_over(state)) stop(state, logger);
}

void EarlyStopper::eval_end(State& state, Logger& logger) {
  if (state.dataloader_label == options_.dataloader_label) update(state, logger);
}

void EarlyStopper::epoch_end(State& state, Logger& logger) {
  if (state.dataloader_label == options_.dataloader_label) update(state, logger);
}

void EarlyStopper::update(State& state, Logger& logger) {
  const auto value = state.metric_value(options_.dataloader_label, options_.monitor);
  if (!value) {
    throw UsageError("EarlyStopper: there is no metric \"" + options_.monitor + "\" of \"" +
                     options_.dataloader_label + "\", or its value is not one number");
  }
  const bool is_better =
      !best_ || (options_.comp(*value, *best_) && std::abs(*value - *best_) > options_.min_delta);
  if (is_better) {
    best_ = *value;
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
