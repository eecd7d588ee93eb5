// Learning-rate schedulers: Composer's, which are functions of the State, and PyTorch's, which have
// state of their own. cairn/schedulers/ has them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cairn/value.h"

namespace torch::optim {
class Optimizer;
}

namespace cairn {

class State;

// What TrainerOptions::schedulers takes: one of the two kinds below. A class of yours derives from
// ComposerScheduler, unless it needs memory of its own.
class Scheduler {
 public:
  virtual ~Scheduler() = default;
};

// A pure function of the state to the multiplier of the initial learning rate. Saved as PyTorch's
// LambdaLR, which the Trainer wraps around it.
class ComposerScheduler : public Scheduler {
 public:
  // `ssr` is the scale_schedule_ratio, for the class to apply to its times. Called on the training
  // thread; an exception ends fit().
  virtual double operator()(const State& state, double ssr) const = 0;
};

// One of PyTorch's schedulers, not yet attached to an optimizer; attach() gives a running one.
// step() and the state behave as torch.optim.lr_scheduler's of that name.
class RunningScheduler;
class TorchScheduler : public Scheduler {
 public:
  // `scale` is the scale_schedule_ratio; UsageError for a scheduler that cannot be scaled.
  virtual std::unique_ptr<RunningScheduler> attach(torch::optim::Optimizer& optimizer,
                                                   double scale) const = 0;
};

// A scheduler at work on one optimizer, which must outlive it. Sets the learning rates of all
// parameter groups at construction and at each step().
class RunningScheduler {
 public:
  virtual ~RunningScheduler() = default;
  virtual std::string name() const = 0;  // "LambdaLR", "StepLR"
  // Once a batch or an epoch, after the optimizer's step.
  virtual void step() = 0;
  // torch's state_dict(), key for key (torch 2.6's set); docs/from_composer.md.
  virtual Value state_dict() const = 0;
  // MismatchError naming what is missing or ill-typed; nothing is changed then. Sets no learning
  // rate: those come with the optimizer's state.
  virtual void load_state_dict(const Value& state) = 0;
  // Whether the rates of the last step are those of the present time. nullopt for a scheduler that
  // counts its steps.
  virtual std::optional<bool> is_of_present_time() const { return std::nullopt; }
};

}  // namespace cairn
