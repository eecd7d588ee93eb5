// Gathers an optimizer's state as a Value, repeatedly. It compares the state with that of the
// previous time, and does not build unchanged parts again.
//
//  1. The first time, optimizer_state_dict() makes the state. The gatherer remembers what the state
//     was made from: the names of the module's parameters, the parameters of the groups, and every
//     field that the layout describes of each state. The gatherer does not hold the tensors.
//  2. The next time, the gatherer looks at all of that again. Tensors must be the same ones in
//     everything that their views were made from (seen_tensors.h). Numbers must be equal, except
//     counts of steps.
//  3. If nothing differs, the Value is made once more, and kept from now on. An optimizer that
//     makes new tensors with every step never reaches this step: holding the optimizer's previous
//     tensors would double the memory of its state.
//  4. If nothing differs the time after that either, the previous Value is returned, with its
//     identity(). The groups are few and are written anew, since learning rates change.
//  5. A count of steps changes with every step, and is a tensor in a checkpoint. The gatherer owns
//     that tensor, and writes the current number into it.
//  6. If anything differs, the gatherer starts again at step 1. Fields that cannot be compared (a
//     list of tensors, a view of a copy) are not remembered.
#pragma once

#include <memory>

#include "cairn/train/optimizer.h"
#include "cairn/value.h"

namespace cairn {

class OptimizerGatherer {
 public:
  OptimizerGatherer();
  ~OptimizerGatherer();
  OptimizerGatherer(OptimizerGatherer&&) noexcept;
  OptimizerGatherer& operator=(OptimizerGatherer&&) noexcept;

  // Returns the same as optimizer_state_dict(), byte for byte. From the third time on, an unchanged
  // "state" keeps its identity(). From the second time on, the gatherer keeps the memory of the
  // tensors until it gathers again, or is destroyed. An unchanged state costs one allocation for
  // each parameter, for the copy that is looked at. Throws as optimizer_state_dict() does. One
  // thread at a time. Earlier results change with the next call, as live tensors do.
  Value gather(const torch::optim::Optimizer& optimizer, const torch::nn::Module& module);

 private:
  class Known;
  std::unique_ptr<Known> known_;  // Null: nothing is known yet.
};

}  // namespace cairn
