// A metric that a callback stops training by.
#pragma once

#include <cstdint>
#include <string>

#include "cairn/callbacks/comparison.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"

namespace cairn {

struct WatchedMetric {
  std::string callback;  // its name, for messages
  std::string monitor;
  std::string dataloader_label;

  // Throws UsageError if a name is missing.
  void check() const;
  // Finds mistakes in the names before training. Throws UsageError if no data has that label, or if
  // the data with that label does not have the metric. Warns if the data are never evaluated.
  // Without this check the callback would do nothing, or fail after the first evaluation.
  void check(const State& state, Logger& logger) const;
  // The last computed value. Throws UsageError if there is none.
  double value(const State& state) const;
};

// "less" for metrics that are named after a loss or an error, otherwise "greater".
Comparison default_comparison(const std::string& monitor);

// The number of the current fit() in this run, counted from 1.
std::int64_t number_of_fit(const State& state);

}  // namespace cairn
