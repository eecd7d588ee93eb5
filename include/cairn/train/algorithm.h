// Algorithm: code that changes how training works (composer/core/algorithm.py).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cairn/export.h"
#include "cairn/train/event.h"
#include "cairn/value.h"

namespace CAIRN_PUBLIC cairn {

class Algorithm;
class Logger;
class State;

// A rule for the order in which algorithms run (composer/core/passes.py). At every event `order`
// gets all algorithms that match the event. `order` may move algorithms, or drop one for this
// event. A pass costs a call at every event. If several passes have one name, only the first runs.
struct AlgorithmPass {
  std::string name;  // "SelectiveBackprop first"
  std::function<void(std::vector<Algorithm*>& algorithms, Event event)> order;
};

// Derive from Algorithm for code that changes the computation: the batch, the loss, the gradients,
// the weights. For code that only observes, derive from Callback. Called on the training thread; an
// exception ends fit().
class Algorithm {
 public:
  virtual ~Algorithm() = default;

  // The key of the algorithm's state in a checkpoint: Composer's class name.
  virtual std::string name() const = 0;
  // Python's repr: the constructor call that makes an equal object, "EMA(half_life='4ba', ...)".
  virtual std::string repr() const = 0;

  // Whether apply() is to be called at this event. Called at every event, so keep it cheap.
  virtual bool match(Event event, const State& state) const = 0;
  virtual void apply(Event event, State& state, Logger& logger) = 0;

  // As Callback::needs_losses(), for batch_end and what follows.
  virtual bool needs_losses(const State& /*state*/) const { return true; }

  // The passes that this algorithm needs. Called at the next event after State::algorithms has
  // changed. The passes of all algorithms run in the order of State::algorithms. Afterwards, at
  // events named after_*, the list of algorithms is reversed, so that the algorithm that was
  // applied last is undone first. Override it for an algorithm that must come first, last, or
  // before another one. Without passes, algorithms run in the order of State::algorithms.
  virtual std::vector<AlgorithmPass> passes() const { return {}; }

  // As Callback::may_change_batch(): whether apply() may change the size of state.batch, or which
  // parameters require gradients, or a buffer of the model, at an event from batch_checkpoint to
  // before_train_batch.
  virtual bool may_change_batch() const { return true; }

  // {"repr": repr()} by default.
  virtual Value state_dict() const;
  // Throws MismatchError naming what does not fit; then nothing is changed.
  virtual void load_state_dict(const Value& /*state*/, const State& /*live*/) {}
};

}  // namespace cairn
