// Precision of forward and loss: plain float32, or autocast to 16 bits on an accelerator.
#pragma once

#include <ATen/core/Tensor.h>

#include "cairn/train/choices.h"

namespace cairn {

// Enables autocast of CUDA operations while it lives. Does nothing for kFp32.
class AutocastGuard {
 public:
  explicit AutocastGuard(Precision precision);
  ~AutocastGuard();
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  bool active_;
  bool was_enabled_ = false;
  at::ScalarType old_dtype_ = at::kHalf;
};

}  // namespace cairn
