// Loading an optimizer in two halves, so that a whole checkpoint can be checked before any of it is
// applied.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cairn/train/optimizer.h"

namespace cairn {

// What apply() will put into the optimizer it was planned for.
class OptimizerLoad {
 public:
  virtual ~OptimizerLoad() = default;

  // What does not fit; empty: apply() will succeed.
  std::vector<std::string> misfits;

  // Once nobody needs the Value that it was planned from any more, and before apply(): brings what
  // is for a device there, and makes the state's own what lies in memory that others have, too.
  // What libtorch throws.
  virtual void prepare() = 0;
  virtual void apply() noexcept = 0;  // once
};

// Throws UnsupportedError for an optimizer, or an option of the saved one, that cairn does not
// have. `optimizer` must outlive the result.
std::unique_ptr<OptimizerLoad> plan_optimizer_load(torch::optim::Optimizer& optimizer,
                                                   const torch::nn::Module& module,
                                                   const Value& state);

}  // namespace cairn
