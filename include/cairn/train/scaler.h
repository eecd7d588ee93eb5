// GradScaler: PyTorch's gradient scaling for fp16, with Python's state.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "cairn/value.h"

namespace torch::optim {
class Optimizer;
}

namespace cairn {

struct GradScalerOptions {
  double init_scale = 65536.0;
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;
  bool enabled = true;
};

class GradScaler {
 public:
  explicit GradScaler(GradScalerOptions options = {});
  // Key in a checkpoint: "GradScaler", or "ClosureGradScaler", Composer's for every precision but
  // fp16.
  std::string name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }

  bool is_enabled() const { return options_.enabled; }
  double get_scale() const { return scale_; }

  // loss * scale when enabled.
  at::Tensor scale(const at::Tensor& loss) const;
  // Divides the gradients by the scale, once per step; notes infinities and NaNs.
  void unscale_(  // NOLINT(readability-identifier-naming): PyTorch's
      torch::optim::Optimizer& optimizer);
  // optimizer.step(), unless a gradient was not finite.
  void step(torch::optim::Optimizer& optimizer);
  // Grows or shrinks the scale.
  void update();

  // {} when disabled, otherwise Python's five entries.
  Value state_dict() const;
  // Takes either; MismatchError for ill-typed entries.
  void load_state_dict(const Value& state);

 private:
  GradScalerOptions options_;
  std::string name_ = "ClosureGradScaler";
  double scale_;
  std::int64_t growth_tracker_ = 0;
  bool unscaled_ = false;
  bool found_inf_ = false;
};

}  // namespace cairn
