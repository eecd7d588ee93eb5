#include "callbacks/watched_metric.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>

#include "cairn/error.h"

namespace cairn {
namespace {

std::string in_lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

// The metrics of the training data or of an evaluator; nullptr if no data has that label.
const Metrics* find_metrics(const State& state, const std::string& label) {
  if (label == state.dataloader_label) return &state.train_metrics;
  const auto found = std::ranges::find(state.eval_metrics, label,
                                       &decltype(state.eval_metrics)::value_type::first);
  return found == state.eval_metrics.end() ? nullptr : &found->second;
}

[[noreturn]] void refuse_label(const State& state, const WatchedMetric& metric) {
  std::string known = quoted(state.dataloader_label) + " (the training data)";
  for (const auto& [each, metrics] : state.eval_metrics)
    known += ", " + quoted(each);
  throw UsageError(metric.callback + ": dataloader_label is " + quoted(metric.dataloader_label) +
                   ", and this fit() has no such data. Its labels are " + known +
                   (state.eval_metrics.empty() ? "; set eval_dataloader for others" : ""));
}

[[noreturn]] void refuse_monitor(const Metrics& metrics, const WatchedMetric& metric) {
  std::string known;
  for (const auto& [name, each] : metrics)
    known += (known.empty() ? "" : ", ") + quoted(name);
  throw UsageError(metric.callback + ": there is no metric " + quoted(metric.monitor) + " of " +
                   quoted(metric.dataloader_label) + ", which has " +
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
    throw UsageError(std::string("comp is \"") + name +
                     "\"; give \"less\" (\"lt\"), \"greater\" (\"gt\") or a function");
  }
}

Comparison default_comparison(const std::string& monitor) {
  const std::string metric = in_lower_case(monitor);
  static constexpr std::array kWords = {"loss", "error", "perplexity", "crossentropy"};
  const bool is_less = std::any_of(kWords.begin(), kWords.end(), [&metric](const char* word) {
    return metric.find(word) != std::string::npos;
  });
  return is_less ? "less" : "greater";
}

std::int64_t number_of_fit(const State& state) {
  if (!state.fit_calls) return 1;
  return state.fit_calls->finished + static_cast<std::int64_t>(state.fit_calls->current) + 1;
}

void WatchedMetric::check() const {
  if (!monitor.empty() && !dataloader_label.empty()) return;
  throw UsageError(callback + " needs monitor and dataloader_label");
}

void WatchedMetric::check(const State& state, Logger& logger) const {
  const Metrics* metrics = find_metrics(state, dataloader_label);
  if (metrics == nullptr) refuse_label(state, *this);
  if (std::ranges::find(*metrics, monitor, &Metrics::value_type::first) == metrics->end()) {
    refuse_monitor(*metrics, *this);
  }
  for (const Evaluator& evaluator : state.evaluators) {
    if (evaluator.label != dataloader_label || !is_never(evaluator.eval_interval)) continue;
    logger.log_message("warning: " + callback + " watches " + quoted(dataloader_label) +
                       ", whose eval_interval is 0: it can stop training only in eval()");
  }
}

double WatchedMetric::value(const State& state) const {
  const auto found = state.metric_value(dataloader_label, monitor);
  if (found) return *found;
  throw UsageError(callback + ": there is no metric " + quoted(monitor) + " of " +
                   quoted(dataloader_label) + ", or its value is not one number");
}

}  // namespace cairn
