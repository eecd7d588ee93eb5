// Precision of forward and loss: plain float32, or autocast to 16 bits on an accelerator.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace cairn {

enum class Precision : std::uint8_t { kFp32, kAmpFp16, kAmpBf16 };

// "fp32", "amp_fp16", "amp_bf16"; nullopt for other names.
std::optional<Precision> find_precision(std::string_view name);

// Autocast of CUDA operations while it lives; does nothing for kFp32.
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
