// NaNMonitor: stops training at a loss that is not a number (composer/callbacks/nan_monitor.py).
#pragma once

#include "cairn/train/callback.h"

namespace cairn {

// Throws TrainingError after the loss was computed and before it changes any weight: the last
// checkpoint is from before. Reading the loss waits for the device, in every batch. To go on
// anyway, start again from that checkpoint with a smaller rate, or with gradients clipped.
class NaNMonitor final : public Callback {
 public:
  std::string name() const override { return "NaNMonitor"; }
  void after_loss(State& state, Logger& logger) override;
};

}  // namespace cairn
