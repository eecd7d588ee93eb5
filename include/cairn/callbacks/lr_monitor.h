// LRMonitor: logs the learning rates after every batch (composer/callbacks/lr_monitor.py).
#pragma once

#include "cairn/export.h"
#include "cairn/train/callback.h"

namespace CAIRN_PUBLIC cairn {

// Logs "lr-<Optimizer>/group<i>": the rate of the next batch. With schedulers that step every
// batch, it is the rate after that step. The cost is negligible.
class LRMonitor final : public Callback {
 public:
  std::string name() const override { return "LRMonitor"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  bool may_change_batch() const override { return false; }
  void batch_end(State& state, Logger& logger) override;
};

}  // namespace cairn
