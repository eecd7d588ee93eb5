#include "train/state/named_metric.h"

#include <algorithm>

#include "cairn/error.h"

namespace cairn {
namespace {

std::string in_quotes(const std::string& text) { return "\"" + text + "\""; }

// The metrics of the training data or of an evaluator; nullptr if no data has that label.
const Metrics* find_metrics(const State& state, const std::string& label) {
  if (label == state.dataloader_label) return &state.train_metrics;
  const auto found = std::ranges::find(state.eval_metrics, label,
                                       &decltype(state.eval_metrics)::value_type::first);
  return found == state.eval_metrics.end() ? nullptr : &found->second;
}

[[noreturn]] void refuse_label(const State& state, const NamedMetric& named) {
  std::string known = in_quotes(state.dataloader_label) + " (the training data)";
  for (const auto& [each, metrics] : state.eval_metrics)
    known += ", " + in_quotes(each);
  throw UsageError(named.asker + ": " + named.label_option + " is " + in_quotes(named.label) +
                   ", and this fit() has no such data. Its labels are " + known +
                   (named.label.empty() ? "; write LABEL/" + named.metric : "") +
                   (state.eval_metrics.empty() ? "; set eval_dataloader for others" : ""));
}

[[noreturn]] void refuse_metric(const Metrics& metrics, const NamedMetric& named) {
  std::string known;
  for (const auto& [name, each] : metrics)
    known += (known.empty() ? "" : ", ") + in_quotes(name);
  throw UsageError(named.asker + ": there is no metric " + in_quotes(named.metric) + " of " +
                   in_quotes(named.label) + ", which has " + (known.empty() ? "none" : known));
}

}  // namespace

void require_metric(const State& state, const NamedMetric& named) {
  const Metrics* metrics = find_metrics(state, named.label);
  if (metrics == nullptr) refuse_label(state, named);
  if (std::ranges::find(*metrics, named.metric, &Metrics::value_type::first) == metrics->end()) {
    refuse_metric(*metrics, named);
  }
}

}  // namespace cairn
