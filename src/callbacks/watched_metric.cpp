#include "callbacks/watched_metric.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>

#include "cairn/error.h"

#include "train/state/named_metric.h"

namespace cairn {
namespace {

std::string in_lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

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
  require_metric(state, {.asker = callback,
                         .label_option = "dataloader_label",
                         .label = dataloader_label,
                         .metric = monitor});
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
