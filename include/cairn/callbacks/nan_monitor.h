// NaNMonitor: stops training when the loss is NaN (composer/callbacks/nan_monitor.py).
#pragma once

#include "cairn/export.h"
#include "cairn/train/callback.h"

namespace CAIRN_PUBLIC cairn {

// Throws TrainingError after the loss is computed and before it changes a weight, so the last
// checkpoint is from before the NaN. Reading the loss waits for the device in every batch. To
// continue, start again from that checkpoint with a smaller rate, or clip gradients.
class NaNMonitor final : public Callback {
 public:
  std::string name() const override { return "NaNMonitor"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  bool may_change_batch() const override { return false; }
  void after_loss(State& state, Logger& logger) override;
};

}  // namespace cairn
