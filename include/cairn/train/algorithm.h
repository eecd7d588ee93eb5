// Algorithm: code that changes how training works (composer/core/algorithm.py).
#pragma once

#include <string>

#include "cairn/train/event.h"
#include "cairn/value.h"

namespace cairn {

class Logger;
class State;

class Algorithm {
 public:
  virtual ~Algorithm() = default;

  // Key of its state in a checkpoint: Composer's class name.
  virtual std::string name() const = 0;
  // Python's repr: the constructor call that makes an equal one, "EMA(half_life='4ba', ...)".
  virtual std::string repr() const = 0;

  // Whether apply() is to be called at this event.
  virtual bool match(Event event, const State& state) const = 0;
  virtual void apply(Event event, State& state, Logger& logger) = 0;

  // {"repr": repr()} by default.
  virtual Value state_dict() const;
  // MismatchError naming what does not fit; nothing is changed then.
  virtual void load_state_dict(const Value& /*state*/, const State& /*live*/) {}
};

}  // namespace cairn
