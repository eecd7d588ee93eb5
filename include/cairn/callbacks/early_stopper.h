// EarlyStopper: ends training when a metric no longer improves
// (composer/callbacks/early_stopper.py).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "cairn/callbacks/comparison.h"
#include "cairn/export.h"
#include "cairn/time.h"
#include "cairn/train/callback.h"
#include "cairn/train/duration.h"
#include "cairn/train/empty_braces.h"

namespace CAIRN_PUBLIC cairn {

// Throws UsageError without monitor or dataloader_label.
//
//   EarlyStopper({.monitor = "CrossEntropy", .dataloader_label = "eval", .patience = 3})
struct EarlyStopperOptions {
  std::string monitor = {};           // name of the metric: "MulticlassAccuracy"
  std::string dataloader_label = {};  // "train", or an evaluator's label
  // Default: "less" if the metric's name contains loss, error, perplexity or crossentropy, in any
  // case of letters; otherwise "greater".
  Comparison comp = nullptr;
  double min_delta = 0.0;  // smaller improvements do not count
  // Epochs or batches without improvement before training ends. If it is shorter than the
  // eval_interval, the first evaluation without improvement ends training.
  Duration patience = 1;
};

// Compares the metric at the end of every evaluation with the label dataloader_label. For the label
// of the training loader, compares it at the end of every epoch. When patience is over, training
// ends after the current batch or epoch.
//
// fit() throws UsageError before it trains if no data has that label, or if the data with that
// label does not have the metric.
//
// The model keeps its last weights. The weights of the best evaluation are in the checkpoint of
// that time, if one was saved and kept.
//
// Checkpoints hold the best value, when it was reached, and which fit() the stopper has ended.
// (Composer starts over on resume.) A run that resumes from such a checkpoint ends the same fit()
// again before it trains a batch, unless patience is larger now.
class EarlyStopper final : public Callback {
 public:
  explicit EarlyStopper(EarlyStopperOptions options);  // UsageError
  explicit EarlyStopper(EmptyBraces)  // EarlyStopper({.monitor = "CrossEntropy", ...})
      : EarlyStopper(EarlyStopperOptions()) {}
  template <detail::NeverMatches T>
  EarlyStopper(std::initializer_list<T>) = delete;

  std::string name() const override { return "EarlyStopper"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  bool may_change_batch() const override { return false; }
  void fit_start(State& state, Logger& logger) override;
  void eval_end(State& state, Logger& logger) override;
  void epoch_end(State& state, Logger& logger) override;
  // {"best": float or None, "best_occurred": timestamp or None, "stopped_fit": int, from 1, or 0}
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;

 private:
  void update(State& state, Logger& logger);
  bool is_patience_over(const State& state) const;
  void stop(State& state, Logger& logger);

  EarlyStopperOptions options_;
  std::optional<double> best_;
  Timestamp best_occurred_;
  std::int64_t stopped_fit_ = 0;  // number of the fit() that this stopper ended last; 0: none
};

}  // namespace cairn
