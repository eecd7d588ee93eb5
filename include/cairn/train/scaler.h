// GradScaler: PyTorch's gradient scaling for fp16, with Python's state.
//
// fp16 gradients that are too small become 0. So the loss is multiplied by a scale, and the
// gradients are divided by the scale before the step. A step whose gradients overflowed is left
// out. The scale shrinks after an overflow and grows without one. The Trainer does all of this with
// precision "amp_fp16"; in a loop of your own do it yourself:
//
//   scaler.scale(loss).backward();
//   scaler.step(optimizer);
//   scaler.update();
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "cairn/export.h"
#include "cairn/value.h"

namespace torch::optim {
class Optimizer;
}

namespace CAIRN_PUBLIC cairn {

// PyTorch's defaults. The first steps of a run may be left out until the scale is small enough; a
// smaller init_scale avoids that.
struct GradScalerOptions {
  double init_scale = 65536.0;
  double growth_factor = 2.0;           // after growth_interval good steps; more than 1
  double backoff_factor = 0.5;          // after a step that was left out; between 0 and 1
  std::int64_t growth_interval = 2000;  // 1 or more
  bool enabled = true;                  // false: everything passes through unchanged
};

// Not thread-safe. For one optimizer.
class GradScaler {
 public:
  // Throws UsageError for options out of range.
  explicit GradScaler(GradScalerOptions options = {});
  // The key in a checkpoint: "GradScaler", or "ClosureGradScaler", Composer's name for every
  // precision except fp16.
  std::string name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }

  bool is_enabled() const { return options_.enabled; }
  double get_scale() const { return scale_; }

  // Returns loss * scale if enabled, otherwise loss.
  at::Tensor scale(const at::Tensor& loss) const;
  // Divides the gradients by the scale, once per step, and notes infinities and NaNs. Call it
  // before you clip or read gradients; step() calls it if you have not. Waits for the device.
  void unscale_(  // NOLINT(readability-identifier-naming): PyTorch's
      torch::optim::Optimizer& optimizer);
  // For a sharded model, where each rank has the gradients of its own rows. Call it on all ranks
  // after unscale_(). If a gradient is not finite on one rank, all ranks then leave out the step,
  // as in PyTorch's ShardedGradScaler. Throws DistError.
  void agree_over_ranks();
  // Calls optimizer.step(), unless a gradient was not finite. Then the weights do not change.
  void step(torch::optim::Optimizer& optimizer);
  // Grows or shrinks the scale. Call it once after each step().
  void update();

  // {} if disabled, otherwise Python's five entries.
  Value state_dict() const;
  // Loads {} or Python's five entries. Throws MismatchError for ill-typed entries. The saved
  // factors replace the options.
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
