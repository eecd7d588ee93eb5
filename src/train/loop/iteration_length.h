// State::iteration_length: without it there are no iterations, and what waits for one waits
// forever.
#pragma once

#include <string>

#include "cairn/train/interval.h"
#include "cairn/train/state.h"

namespace cairn {

// UsageError when there is a length, and it is none: it is 1 or more, in epochs or tokens.
void check_iteration_length(const State& state);

// UsageError when `time` is in iterations and there is no length. `what` is the option's name, and
// `consequence` what would become of it: "training would never end".
void require_iteration_length(const State& state, const Time& time, const std::string& what,
                              const std::string& consequence);

// The same for an interval that would never come. One that is a function, or 0 or less, waits for
// nothing.
void require_iteration_length(const State& state, const Interval& interval,
                              const std::string& what);

}  // namespace cairn
