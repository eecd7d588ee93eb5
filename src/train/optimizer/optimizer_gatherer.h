// Gathering an optimizer's state as a Value, again and again: what did not change since the time
// before is compared, and not made anew.
//
//  1. The first time the state is made by optimizer_state_dict(), and what it was made from is
//     remembered: the names of the module's parameters, the parameters of the groups, and of the
//     state of each one every field that its layout describes. The tensors are let go of.
//  2. The next time all of that is looked at again. Tensors must be the ones of before in
//     everything that their views were made from (seen_tensors.h); numbers must be the same, but
//     for the counts of steps.
//  3. If nothing differs the Value is made once more, and kept from now on. An optimizer that makes
//     new tensors with every step does not come so far: holding on to those of before would take
//     the memory of its state twice.
//  4. If nothing differs then either, the Value is the one of before, with its identity(). The
//     groups, of which there are few, are written anew: learning rates change.
//  5. A count of steps changes with every step, and is a tensor in a checkpoint: that tensor is the
//     gatherer's own, and gets the number of now.
//  6. If anything differs it is as the first time. What cannot be compared (a list of tensors, a
//     view of a copy) is not remembered.
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

  // What optimizer_state_dict() gives, byte for byte; its "state" is of one identity() with that of
  // the time before from the third time on, if it is still what that gives. From the second time
  // on it keeps the memory of those tensors until it gathers again, or goes. One that is the same
  // needs one allocation for each parameter, of the copy of its state that is looked at. Throws as
  // optimizer_state_dict(). One thread at a time. What it gave before changes with the next call,
  // as live tensors do.
  Value gather(const torch::optim::Optimizer& optimizer, const torch::nn::Module& module);

 private:
  class Known;
  std::unique_ptr<Known> known_;  // nullptr: nothing
};

}  // namespace cairn
