// Loads an optimizer in two halves, so that a whole checkpoint can be checked before any of it is
// applied.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cairn/train/optimizer.h"

namespace cairn {

// A checked state, which apply() puts into the optimizer that it was planned for.
class OptimizerLoad {
 public:
  virtual ~OptimizerLoad() = default;

  // Descriptions of what does not fit. If empty, apply() will succeed.
  std::vector<std::string> misfits;

  // Call it before apply(), when the Value that the load was planned from is no longer needed.
  // Uploads what belongs on a device. Copies tensors whose memory has other owners. Throws
  // libtorch's exceptions.
  virtual void prepare() = 0;
  virtual void apply() noexcept = 0;  // Call it once.
};

// Throws UnsupportedError for an optimizer, or a saved option, that cairn does not support.
// `optimizer` must outlive the result.
std::unique_ptr<OptimizerLoad> plan_optimizer_load(torch::optim::Optimizer& optimizer,
                                                   const torch::nn::Module& module,
                                                   const Value& state);

}  // namespace cairn
