// EarlyStopper: ends training when a metric no longer improves
// (composer/callbacks/early_stopper.py).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cairn/time.h"
#include "cairn/train/callback.h"

namespace cairn {

struct EarlyStopperOptions {
  std::string monitor = {};           // name of the metric: "MulticlassAccuracy"
  std::string dataloader_label = {};  // "train", or an evaluator's
  // Whether `value` is better than `best`. Default: less, where the metric's name contains loss,
  // error or perplexity; greater otherwise.
  std::function<bool(double value, double best)> comp = nullptr;
  double min_delta = 0.0;  // smaller improvements do not count
  Time patience = "1ep";   // epochs or batches without improvement after which training goes on
};

// Looks at the metric at the end of every evaluation with that label, or of every epoch for the
// training loader's. Training ends after the batch or epoch in which it says so.
//
// The best value and when it was reached are part of checkpoints (Composer starts over on resume).
class EarlyStopper final : public Callback {
 public:
  explicit EarlyStopper(EarlyStopperOptions options);  // UsageError

  std::string name() const override { return "EarlyStopper"; }
  void eval_end(State& state, Logger& logger) override;
  void epoch_end(State& state, Logger& logger) override;
  Value state_dict() const override;  // {"best": float or None, "best_occurred": timestamp or None}
  void load_state_dict(const Value& state) override;

 private:
  void update(State& state, Logger& logger);

  EarlyStopperOptions options_;
  std::optional<double> best_;
  Timestamp best_occurred_;
};

}  // namespace cairn
