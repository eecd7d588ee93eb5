// A metric that an option names, as in a callback that watches it.
#pragma once

#include <string>

#include "cairn/train/state.h"

namespace cairn {

struct NamedMetric {
  std::string asker;         // "EarlyStopper": begins the messages.
  std::string label_option;  // "dataloader_label": the option that gives the label.
  std::string label;         // "train", or an evaluator's.
  std::string metric;
};

// Finds mistakes in the names before training. Throws UsageError if no data has the label, or if
// the data with that label does not have the metric. The message lists those that there are.
void require_metric(const State& state, const NamedMetric& named);

}  // namespace cairn
