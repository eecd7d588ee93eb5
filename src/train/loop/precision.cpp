#include "train/loop/precision.h"

#include <ATen/autocast_mode.h>
#include <torch/torch.h>
#include <torch/version.h>

namespace cairn {
namespace {

// libtorch 2.4 replaced the functions for each kind of device with functions for any device.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
at::DeviceType kind_of(bool on_cpu) { return on_cpu ? at::kCPU : at::kCUDA; }
bool is_enabled(bool on_cpu) { return at::autocast::is_autocast_enabled(kind_of(on_cpu)); }
void set_enabled(bool on_cpu, bool enabled) {
  at::autocast::set_autocast_enabled(kind_of(on_cpu), enabled);
}
at::ScalarType dtype(bool on_cpu) { return at::autocast::get_autocast_dtype(kind_of(on_cpu)); }
void set_dtype(bool on_cpu, at::ScalarType dtype) {
  at::autocast::set_autocast_dtype(kind_of(on_cpu), dtype);
}
#else
bool is_enabled(bool on_cpu) {
  return on_cpu ? at::autocast::is_cpu_enabled() : at::autocast::is_enabled();
}
void set_enabled(bool on_cpu, bool enabled) {
  on_cpu ? at::autocast::set_cpu_enabled(enabled) : at::autocast::set_enabled(enabled);
}
at::ScalarType dtype(bool on_cpu) {
  return on_cpu ? at::autocast::get_autocast_cpu_dtype() : at::autocast::get_autocast_gpu_dtype();
}
void set_dtype(bool on_cpu, at::ScalarType dtype) {
  on_cpu ? at::autocast::set_autocast_cpu_dtype(dtype)
         : at::autocast::set_autocast_gpu_dtype(dtype);
}
#endif

}  // namespace

AutocastGuard::AutocastGuard(Precision precision, const at::Device& device)
    : active_(precision != Precision::kFp32), on_cpu_(device.is_cpu()) {
  if (!active_) return;
  was_enabled_ = is_enabled(on_cpu_);
  old_dtype_ = dtype(on_cpu_);
  set_enabled(on_cpu_, true);
  set_dtype(on_cpu_, precision == Precision::kAmpFp16 ? at::kHalf : at::kBFloat16);
  at::autocast::increment_nesting();
}

AutocastGuard::~AutocastGuard() {
  if (!active_) return;
  // Casts of the weights, cached for this forward, are stale after the next step.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  set_dtype(on_cpu_, old_dtype_);
  set_enabled(on_cpu_, was_enabled_);
}

// No function of libtorch's headers says it in all versions. Each operator of oneDNN's on bfloat16
// asks the processor first, and throws if it has none. GELU is a small one of them.
bool cpu_has_bfloat16() {
  static const bool has = [] {
    if (!at::hasMKLDNN()) return false;
    const torch::NoGradGuard no_grad;
    try {
      at::gelu(at::ones({1}).to_mkldnn(at::kBFloat16));
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }();
  return has;
}

std::string cpu_precision_problem(Precision precision, bool has_bfloat16) {
  if (precision == Precision::kAmpFp16) {
    return "precision amp_fp16 needs device gpu; on cpu fp32 trains, and amp_bf16 on processors "
           "with bfloat16";
  }
  if (precision == Precision::kAmpBf16 && !has_bfloat16) {
    return "precision amp_bf16 on device cpu needs a processor on which oneDNN computes in "
           "bfloat16 (x86: AVX-512 with BW, VL and DQ), and this one, or this libtorch, has none: "
           "use fp32";
  }
  return "";
}

}  // namespace cairn
