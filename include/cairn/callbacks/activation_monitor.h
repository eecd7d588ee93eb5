// ActivationMonitor: logs the sizes of what goes into and comes out of layers
// (composer/callbacks/activation_monitor.py).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cairn/export.h"
#include "cairn/train/callback.h"
#include "cairn/train/duration.h"
#include "cairn/train/empty_braces.h"

namespace CAIRN_PUBLIC cairn {

struct ActivationMonitorOptions {
  // How often: at the first microbatch of every 25th batch, or of every n-th epoch ("1ep"). In
  // batches or epochs. (In Composer an integer counts batches; here it counts epochs, as in all
  // options.)
  Duration interval = "25ba";
  // Layers whose name contains one of these texts are not logged.
  std::vector<std::string> ignore_module_types = {};
};

// Logs four figures for each floating-point tensor that goes into a layer or comes out of it.
//
// - activations/l2_norm/NAME_input.0: the L2 norm over the last dimension, on average
// - activations/average/NAME_input.0: the mean of all elements
// - activations/kurtosis/NAME_input.0: the kurtosis over the last dimension, on average
// - activations/max/NAME_input.0: the maximum over the last dimension, on average
//
// The same is logged for NAME_output.0. NAME is the layer's name in the model.
//
// Modules of libtorch in C++ have no hooks, which Composer uses. The callback sees the operators
// that libtorch runs, and knows a layer by its parameters and buffers. So layers without any, such
// as ReLU or Sequential, are not logged. A layer that runs several operators, or that is used
// several times in one forward(), is logged with its first inputs and its last outputs.
//
// A batch that is logged costs four small operators for each logged tensor, and on a GPU one wait.
// Other batches cost nothing.
class ActivationMonitor final : public Callback {
 public:
  explicit ActivationMonitor(ActivationMonitorOptions options = {});  // UsageError
  explicit ActivationMonitor(EmptyBraces)  // ActivationMonitor({.interval = "100ba"})
      : ActivationMonitor(ActivationMonitorOptions()) {}
  ~ActivationMonitor() override;
  ActivationMonitor(ActivationMonitor&&) noexcept;
  ActivationMonitor& operator=(ActivationMonitor&&) noexcept;

  std::string name() const override { return "ActivationMonitor"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  bool may_change_batch() const override { return false; }
  void batch_start(State& state, Logger& logger) override;
  void before_forward(State& state, Logger& logger) override;
  void after_forward(State& state, Logger& logger) override;
  void close(State& state, Logger& logger) override;

 private:
  class Watch;

  ActivationMonitorOptions options_;
  bool is_due_ = false;           // the next forward() is to be watched
  std::unique_ptr<Watch> watch_;  // null between forward()s
};

}  // namespace cairn
