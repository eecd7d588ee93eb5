// How schedulers read their times against a State.
#pragma once

#include "cairn/time.h"
#include "cairn/train/state.h"

namespace cairn {

// `time` in the unit that training is counted in: "dur" becomes the unit of max_duration (batches
// when that is in epochs), epochs become batches; times that were not in "dur" are multiplied by
// `ssr`, since max_duration already is. Counts are truncated. UsageError for seconds, without a
// max_duration, and for epochs of unknown length.
Time convert_time(const Time& time, const State& state, double ssr = 1.0);

// The state's time in the unit of `like`, and what part of `whole` it is.
Time current_time(const State& state, const Time& like);
double fraction_of(const State& state, const Time& whole);

}  // namespace cairn
