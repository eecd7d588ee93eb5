#include "train/loop/precision.h"

#include <torch/torch.h>

namespace cairn {
namespace {

AutocastState autocast_of(Precision precision, bool on_cpu) {
  AutocastState state = AutocastState::current();
  (on_cpu ? state.cpu : state.cuda) = {
      .is_enabled = true, .dtype = precision == Precision::kAmpFp16 ? at::kHalf : at::kBFloat16};
  return state;
}

}  // namespace

AutocastGuard::AutocastGuard(Precision precision, const at::Device& device) {
  if (precision != Precision::kFp32) scope_.emplace(autocast_of(precision, device.is_cpu()));
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
