// ThresholdStopper: ends training when a metric reaches a value
// (composer/callbacks/threshold_stopper.py).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "cairn/callbacks/comparison.h"
#include "cairn/export.h"
#include "cairn/train/callback.h"
#include "cairn/train/empty_braces.h"

namespace CAIRN_PUBLIC cairn {

// Throws UsageError without monitor, dataloader_label or threshold.
//
//   ThresholdStopper({.monitor = "Accuracy", .dataloader_label = "eval", .threshold = 0.9})
struct ThresholdStopperOptions {
  std::string monitor = {};                        // name of the metric: "MulticlassAccuracy"
  std::string dataloader_label = {};               // "train", or an evaluator's label
  std::optional<double> threshold = std::nullopt;  // what the metric has to pass
  // comp(metric, threshold) ends training. Default: "less" if the metric's name contains loss,
  // error, perplexity or crossentropy, in any case of letters; otherwise "greater".
  Comparison comp = nullptr;
  // If true, the metrics of the training data are compared after every batch, not only after an
  // epoch. Evaluators are compared after every evaluation in any case.
  bool stop_on_batch = false;
};

// Compares the metric at the end of every evaluation with the label dataloader_label. For the label
// of the training loader, compares it at the end of every epoch. Training ends after the current
// batch or epoch.
//
// fit() throws UsageError before it trains if no data has that label, or if the data with that
// label does not have the metric.
//
// Checkpoints hold which fit() the stopper has ended, and the value. A run that resumes from such a
// checkpoint ends the same fit() again before it trains a batch, unless the value is not past the
// threshold now.
class ThresholdStopper final : public Callback {
 public:
  explicit ThresholdStopper(ThresholdStopperOptions options);  // UsageError
  explicit ThresholdStopper(EmptyBraces)  // ThresholdStopper({.monitor = "CrossEntropy", ...})
      : ThresholdStopper(ThresholdStopperOptions()) {}
  template <detail::NeverMatches T>
  ThresholdStopper(std::initializer_list<T>) = delete;

  std::string name() const override { return "ThresholdStopper"; }
  // With stop_on_batch, which reads training metrics.
  bool needs_losses(const State& state) const override;
  bool may_change_batch() const override { return false; }
  void fit_start(State& state, Logger& logger) override;
  void batch_end(State& state, Logger& logger) override;
  void eval_end(State& state, Logger& logger) override;
  void epoch_end(State& state, Logger& logger) override;
  // {"stopped_fit": int, from 1, or 0, "value": float}
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;

 private:
  void compare(State& state, Logger& logger);
  void stop(State& state, Logger& logger, double value);

  ThresholdStopperOptions options_;
  std::int64_t stopped_fit_ = 0;  // number of the fit() that this stopper ended last; 0: none
  double value_ = 0;              // the metric then
};

}  // namespace cairn
