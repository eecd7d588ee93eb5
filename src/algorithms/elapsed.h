// How much of the run is done.
#pragma once

#include <optional>
#include <string>

#include "cairn/error.h"
#include "cairn/time.h"
#include "cairn/train/state.h"

namespace cairn {

// Whether training has come as far as `time`, which may be a fraction of the run.
inline bool has_reached(const State& state, const Time& time) {
  if (time.unit() != TimeUnit::kDuration) return state.timestamp.get(time.unit()) >= time;
  const std::optional<Time> elapsed = state.get_elapsed_duration();
  return elapsed && *elapsed >= time;
}

// The fraction of the run that is done. Throws UsageError without max_duration. `who`: the
// algorithm.
inline double elapsed_fraction(const State& state, const std::string& who) {
  const std::optional<Time> elapsed = state.get_elapsed_duration();
  if (!elapsed) throw UsageError(who + " needs max_duration, since it works by its fractions");
  return elapsed->fraction();
}

// Throws UsageError unless `value` is in [0, 1]. `where`: "LayerFreezing: freeze_start".
inline void check_fraction(const std::string& where, double value) {
  if (value >= 0 && value <= 1) return;
  throw UsageError(where + " must be from 0 to 1, found " + std::to_string(value));
}

}  // namespace cairn
