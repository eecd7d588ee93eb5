// Learning-rate schedulers: Composer's, which are functions of the State, and PyTorch's, which have
// a state of their own. The classes are in cairn/schedulers/.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cairn/export.h"
#include "cairn/value.h"

namespace torch::optim {
class Optimizer;
}

namespace CAIRN_PUBLIC cairn {

class State;

// The type of TrainerOptions::schedulers: one of the two kinds below. Derive your own from
// ComposerScheduler, unless it needs memory.
class Scheduler {
 public:
  virtual ~Scheduler() = default;
};

// A pure function from the state to the multiplier of the initial learning rate. Saved as PyTorch's
// LambdaLR, which the Trainer wraps around it.
class ComposerScheduler : public Scheduler {
 public:
  // `ssr` is the scale_schedule_ratio; the class applies it to its times. Called on the training
  // thread; an exception ends fit().
  virtual double operator()(const State& state, double ssr) const = 0;
};

// One of PyTorch's schedulers before it is attached to an optimizer; attach() returns a running
// one. step() and the state do what the class of the same name in torch.optim.lr_scheduler does.
class RunningScheduler;
class TorchScheduler : public Scheduler {
 public:
  // `scale` is the scale_schedule_ratio. Throws UsageError for a scheduler that cannot be scaled.
  virtual std::unique_ptr<RunningScheduler> attach(torch::optim::Optimizer& optimizer,
                                                   double scale) const = 0;
};

// A scheduler attached to one optimizer. The optimizer must outlive the scheduler. Sets the
// learning rates of all parameter groups at construction and at each step().
class RunningScheduler {
 public:
  virtual ~RunningScheduler() = default;
  virtual std::string name() const = 0;  // "LambdaLR", "StepLR"
  // Call it once per batch or epoch, after the optimizer's step.
  virtual void step() = 0;
  // torch's state_dict(), key for key (as in torch 2.6); docs/from_composer.md.
  virtual Value state_dict() const = 0;
  // Throws MismatchError naming what is missing or ill-typed; then nothing is changed. Sets no
  // learning rate: these are part of the optimizer's state.
  virtual void load_state_dict(const Value& state) = 0;
  // Whether the rates of the last step fit the present time. nullopt for a scheduler that counts
  // its steps.
  virtual std::optional<bool> is_of_present_time() const { return std::nullopt; }
};

}  // namespace cairn
