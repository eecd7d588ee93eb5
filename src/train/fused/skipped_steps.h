// Steps that a device leaves out by itself if a gradient was infinite or NaN (GradScaler). The host
// does not wait to find out:
//
//  1. Before a step, found_inf is a number on the device: 1 if a gradient was not finite, else 0.
//  2. The optimizer's fused operator gets it, and changes nothing if it is 1.
//  3. The host counts every step as made. The device adds found_inf up, and subtracts the sum from
//     the count that it gives to the next step.
//  4. settle() reads the sums and corrects the host's counts, before anything reads these.
#pragma once

#include <torch/torch.h>

#include <unordered_map>

namespace cairn {

struct SkippedSteps {
  at::Tensor found_inf;  // of the step that is being made; undefined if no device may leave it out
  // How many of the counted steps were left out, by parameter: a number on the device. Parameters
  // of equal histories share a tensor. No entry: none.
  std::unordered_map<const c10::TensorImpl*, at::Tensor> sums;
};

// An optimizer that can do this.
class SkippingOptimizer {
 public:
  virtual ~SkippingOptimizer() = default;
  // Steps unless found_inf is 1. Returns false, having done nothing, if the host has to decide: a
  // parameter has no state yet, is on another device, or does not fit the fused operator.
  virtual bool step_unless(const at::Tensor& found_inf) = 0;
  // Waits for the device if it may have left out steps since the previous call.
  virtual void settle() const = 0;
};

// For any optimizer. Call it before you read or replace its state.
inline void settle_steps(const torch::optim::Optimizer& optimizer) {
  const auto* const skipping = dynamic_cast<const SkippingOptimizer*>(&optimizer);
  if (skipping != nullptr) skipping->settle();
}

}  // namespace cairn
