// LRMonitor: logs the learning rates after every batch (composer/callbacks/lr_monitor.py).
#pragma once

#include "cairn/train/callback.h"

namespace cairn {

// Logs "lr-<Optimizer>/group<i>", the rate that the next batch will be trained with: with
// schedulers that step every batch, that after the step. Costs nothing to speak of.
class LRMonitor final : public Callback {
 public:
  std::string name() const override { return "LRMonitor"; }
  void batch_end(State& state, Logger& logger) override;
};

}  // namespace cairn
