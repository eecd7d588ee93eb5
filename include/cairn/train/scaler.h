// GradScaler: PyTorch's gradient scaling for fp16, with Python's state.
//
// Gradients of fp16 that are too small become 0. So the loss is multiplied by a scale, the
// gradients divided by it before the step, a step whose gradients overflowed is left out, and the
// scale follows what the gradients bear. The Trainer does all of that with precision "amp_fp16";
// use it yourself in a loop of your own:
//
//   scaler.scale(loss).backward();
//   scaler.step(optimizer);
//   scaler.update();
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "cairn/value.h"

namespace torch::optim {
class Optimizer;
}

namespace cairn {

// PyTorch's defaults. The first steps of a run may be left out while the scale comes down; a
// smaller init_scale avoids that.
struct GradScalerOptions {
  double init_scale = 65536.0;
  double growth_factor = 2.0;           // after growth_interval good steps; more than 1
  double backoff_factor = 0.5;          // after a bad one; between 0 and 1
  std::int64_t growth_interval = 2000;  // 1 or more
  bool enabled = true;                  // false: everything passes through unchanged
};

// Not thread-safe; for one optimizer.
class GradScaler {
 public:
  // UsageError for options out of range.
  explicit GradScaler(GradScalerOptions options = {});
  // Key in a checkpoint: "GradScaler", or "ClosureGradScaler", Composer's for every precision but
  // fp16.
  std::string name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }

  bool is_enabled() const { return options_.enabled; }
  double get_scale() const { return scale_; }

  // loss * scale when enabled.
  at::Tensor scale(const at::Tensor& loss) const;
  // Divides the gradients by the scale, once per step; notes infinities and NaNs. Call it before
  // gradients are clipped or looked at; step() does when nobody has. Waits for the device.
  void unscale_(  // NOLINT(readability-identifier-naming): PyTorch's
      torch::optim::Optimizer& optimizer);
  // Of a sharded model a rank sees the gradients of its own rows. Behind unscale_(), on all ranks:
  // what is not finite on one is not finite for all, as PyTorch's ShardedGradScaler. DistError.
  void agree_over_ranks();
  // optimizer.step(), unless a gradient was not finite: the weights stay then.
  void step(torch::optim::Optimizer& optimizer);
  // Grows or shrinks the scale; once after each step().
  void update();

  // {} when disabled, otherwise Python's five entries.
  Value state_dict() const;
  // Takes either; MismatchError for ill-typed entries. The saved factors replace the options.
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
