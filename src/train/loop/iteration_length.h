// State::iteration_length. Without it there are no iterations, and waiting for one lasts forever.
#pragma once

#include <string>

#include "cairn/train/interval.h"
#include "cairn/train/state.h"

namespace cairn {

// Throws UsageError if the length is set but invalid. It must be 1 or more, in epochs or tokens.
void check_iteration_length(const State& state);

// Throws UsageError if `time` is in iterations and no length is set. `what` is the option's name.
// `consequence` says what would happen: "training would never end".
void require_iteration_length(const State& state, const Time& time, const std::string& what,
                              const std::string& consequence);

// As above, for an interval that would never come. An interval that is a function, or is 0 or less,
// never waits for an iteration.
void require_iteration_length(const State& state, const Interval& interval,
                              const std::string& what);

}  // namespace cairn
