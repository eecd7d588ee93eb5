// Algorithm: code that changes how training works (composer/core/algorithm.py).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cairn/train/event.h"
#include "cairn/value.h"

namespace cairn {

class Algorithm;
class Logger;
class State;

// A rule of the order in which algorithms run (composer/core/passes.py). At every event `order`
// gets those that match it, of every class, and may move them, or drop one for this time; it costs
// a call an event. Of several passes with one name the first is run.
struct AlgorithmPass {
  std::string name;  // "SelectiveBackprop first"
  std::function<void(std::vector<Algorithm*>& algorithms, Event event)> order;
};

// Derive from it for what changes the computation: the batch, the loss, the gradients, the weights.
// What only looks on is a Callback. Called on the training thread; an exception ends fit().
class Algorithm {
 public:
  virtual ~Algorithm() = default;

  // Key of its state in a checkpoint: Composer's class name.
  virtual std::string name() const = 0;
  // Python's repr: the constructor call that makes an equal one, "EMA(half_life='4ba', ...)".
  virtual std::string repr() const = 0;

  // Whether apply() is to be called at this event. Asked at every event: keep it cheap.
  virtual bool match(Event event, const State& state) const = 0;
  virtual void apply(Event event, State& state, Logger& logger) = 0;

  // What this algorithm needs of the order: asked at the next event whenever State::algorithms has
  // changed. The passes of all algorithms run in the order of that list; afterwards, at events
  // named after_*, the whole list is reversed, so that what was applied last is undone first.
  // Override for an algorithm that has to come first, last, or before another one; without a pass
  // algorithms run in the order of State::algorithms.
  virtual std::vector<AlgorithmPass> passes() const { return {}; }

  // {"repr": repr()} by default.
  virtual Value state_dict() const;
  // MismatchError naming what does not fit; nothing is changed then.
  virtual void load_state_dict(const Value& /*state*/, const State& /*live*/) {}
};

}  // namespace cairn
