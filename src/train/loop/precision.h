// Precision of forward and loss: plain float32, or autocast to 16 bits.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "cairn/train/choices.h"

#include "dist/recompute/autocast_state.h"

namespace cairn {

// Enables autocast of the device's operations while it lives. Does nothing for kFp32. A device that
// is not a CPU is taken for a CUDA device.
class AutocastGuard {
 public:
  AutocastGuard(Precision precision, const at::Device& device);

 private:
  std::optional<AutocastScope> scope_;
};

// Whether oneDNN computes in bfloat16 on this processor. Without that, autocast would be slower
// than float32.
bool cpu_has_bfloat16();

// Why no model trains on a CPU with this precision: a sentence, or "" if one does.
// `has_bfloat16`: cpu_has_bfloat16().
std::string cpu_precision_problem(Precision precision, bool has_bfloat16);

}  // namespace cairn
