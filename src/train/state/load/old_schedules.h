// Composer up to 0.9 stepped schedulers after the time had advanced: batch n was trained with the
// rate of n. Since 0.10 it is trained with that of n - 1. A run continues as it began.
#pragma once

#include "cairn/train/logger.h"
#include "cairn/train/state.h"
#include "cairn/value.h"

namespace cairn {

// Beside the Timestamp in a checkpoint, if true. Composer ignores it.
inline constexpr const char* kStepAfterTime = "schedulers_step_after_time";

// Whether the run that saved `saved` (a "state" in the present layout, from `time`) steps that way.
// Logs it if so. `state` must have loaded its schedulers, and is not changed.
//
//  1. A checkpoint of cairn says so.
//  2. A checkpoint of Composer with "metadata" is from 0.11 or newer.
//  3. Otherwise the saved rates tell, if the rates of `time` and of one batch earlier differ.
//  4. Otherwise it is so if "run_name" is missing, which Composer saves since 0.10.
bool steps_after_time(const Value& saved, const Timestamp& time, State& state, Logger& logger);

}  // namespace cairn
