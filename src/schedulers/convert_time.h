// Converts the times of schedulers for a State.
#pragma once

#include "cairn/time.h"
#include "cairn/train/state.h"

namespace cairn {

// Returns `time` in the unit that training is counted in. "dur" becomes the unit of max_duration,
// or batches if max_duration is in epochs. Epochs become batches. Times that were not in "dur" are
// multiplied by `ssr`, since max_duration is multiplied already. Counts are truncated. Throws
// UsageError for seconds, without a max_duration, and for epochs of unknown length.
Time convert_time(const Time& time, const State& state, double ssr = 1.0);

// current_time() returns the state's time in the unit of `like`; fraction_of() returns it as a
// fraction of `whole`.
Time current_time(const State& state, const Time& like);
double fraction_of(const State& state, const Time& whole);

}  // namespace cairn
