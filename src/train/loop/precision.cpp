#include "train/loop/precision.h"

#include <ATen/autocast_mode.h>
#include <torch/version.h>

namespace cairn {
namespace {

// libtorch 2.4 replaced the functions for CUDA with functions for any device.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
bool is_enabled() { return at::autocast::is_autocast_enabled(at::kCUDA); }
void set_enabled(bool enabled) { at::autocast::set_autocast_enabled(at::kCUDA, enabled); }
at::ScalarType dtype() { return at::autocast::get_autocast_dtype(at::kCUDA); }
void set_dtype(at::ScalarType dtype) { at::autocast::set_autocast_dtype(at::kCUDA, dtype); }
#else
bool is_enabled() { return at::autocast::is_enabled(); }
void set_enabled(bool enabled) { at::autocast::set_enabled(enabled); }
at::ScalarType dtype() { return at::autocast::get_autocast_gpu_dtype(); }
void set_dtype(at::ScalarType dtype) { at::autocast::set_autocast_gpu_dtype(dtype); }
#endif

}  // namespace

AutocastGuard::AutocastGuard(Precision precision) : active_(precision != Precision::kFp32) {
  if (!active_) return;
  was_enabled_ = is_enabled();
  old_dtype_ = dtype();
  set_enabled(true);
  set_dtype(precision == Precision::kAmpFp16 ? at::kHalf : at::kBFloat16);
  at::autocast::increment_nesting();
}

AutocastGuard::~AutocastGuard() {
  if (!active_) return;
  // Casts of the weights, cached for this forward, are stale after the next step.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  set_dtype(old_dtype_);
  set_enabled(was_enabled_);
}

}  // namespace cairn
