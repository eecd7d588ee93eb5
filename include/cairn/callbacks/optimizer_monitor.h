// OptimizerMonitor: logs the sizes of gradients and of what the optimizer does with them
// (composer/callbacks/optimizer_monitor.py).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "cairn/export.h"
#include "cairn/train/callback.h"
#include "cairn/train/empty_braces.h"

namespace CAIRN_PUBLIC cairn {

struct OptimizerMonitorOptions {
  // If false, only gradients are logged.
  bool log_optimizer_metrics = true;
  // Logs after every batch whose number is a multiple of this, counted from 1.
  std::int64_t batch_log_interval = 10;
};

// Logs L2 norms for each trainable parameter that has a gradient, under its name.
//
// - l2_norm/grad/NAME: the gradient, after algorithms such as GradientClipping changed it
// - l2_norm/grad/global: all gradients together
// - l2_norm/param/NAME: the weights after the step
// - l2_norm/update/NAME: the change of the weights in this step
// - l2_norm/moment/NAME: the mean of the gradients that the optimizer keeps ("exp_avg", or else
//  "momentum_buffer"); not logged if there is none
// In a sharded run the norms are those of the whole tensors: all ranks add up their parts.
//
// In a batch that is logged, the weights are copied before the step, so that the model's memory is
// needed once more, and on a GPU the batch waits once for the GPU. Other batches cost nothing.
//
// (Composer logs moment, param and update with DecoupledAdamW only, and computes the update from
// the moments.)
class OptimizerMonitor final : public Callback {
 public:
  explicit OptimizerMonitor(const OptimizerMonitorOptions& options = {});  // UsageError
  explicit OptimizerMonitor(EmptyBraces)  // OptimizerMonitor({.batch_log_interval = 100})
      : OptimizerMonitor(OptimizerMonitorOptions()) {}
  template <detail::NeverMatches T>
  OptimizerMonitor(std::initializer_list<T>) = delete;

  std::string name() const override { return "OptimizerMonitor"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  bool may_change_batch() const override { return false; }
  void batch_start(State& state, Logger& logger) override;
  void after_train_batch(State& state, Logger& logger) override;
  void batch_end(State& state, Logger& logger) override;

 private:
  std::vector<std::pair<std::string, at::Tensor>> watched_tensors(const State& state);

  OptimizerMonitorOptions options_;
  // The weights before the step of a batch that will be logged, in the order of the trainable
  // parameters; otherwise empty.
  std::vector<at::Tensor> before_step_;
};

}  // namespace cairn
