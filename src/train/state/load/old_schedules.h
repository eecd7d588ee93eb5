// Composer up to 0.9 stepped schedulers after the time had advanced: batch n was trained with the
// rate of n. Since 0.10 batch n is trained with the rate of n - 1. A run continues as it began.
#pragma once

#include "cairn/train/logger.h"
#include "cairn/train/state.h"
#include "cairn/value.h"

namespace cairn {

// The key of an entry beside the Timestamp in a checkpoint, written only if it is true. Composer
// ignores this entry.
inline constexpr const char* kStepAfterTime = "schedulers_step_after_time";

// Whether the run that saved `saved` (a "state" in the present layout, from `time`) steps
// schedulers after the time. If so, logs this. `state` must have loaded its schedulers, and is not
// changed.
//
//  1. If the checkpoint has kStepAfterTime, which cairn writes, that decides.
//  2. A checkpoint of Composer with "metadata" is from 0.11 or newer: false.
//  3. Otherwise the saved rates tell, if the rates of `time` and of one batch earlier differ.
//  4. Otherwise true if "run_name" is missing, which Composer saves since 0.10.
bool steps_after_time(const Value& saved, const Timestamp& time, State& state, Logger& logger);

}  // namespace cairn
