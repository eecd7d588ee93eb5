// FreeOutputs: drops the model's outputs as soon as the loss is known
// (composer/callbacks/free_outputs.py).
#pragma once

#include <string>

#include "cairn/export.h"
#include "cairn/train/callback.h"

namespace CAIRN_PUBLIC cairn {

// Empties State::outputs at after_loss. The memory of outputs that the loss does not need for its
// gradient is then free during backward(). Code at later events sees no outputs.
//
// fit() throws UsageError before it trains if the model has training metrics, which need them.
class FreeOutputs final : public Callback {
 public:
  std::string name() const override { return "FreeOutputs"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  bool may_change_batch() const override { return false; }
  void fit_start(State& state, Logger& logger) override;
  void after_loss(State& state, Logger& logger) override;
};

}  // namespace cairn
