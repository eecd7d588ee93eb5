// Composer up to 0.9 stepped schedulers after the time had advanced: batch n was trained with the
// rate of n, and since 0.10 it is trained with that of n - 1. A run goes on as it began.
#pragma once

#include "cairn/train/logger.h"
#include "cairn/train/state.h"
#include "cairn/value.h"

namespace cairn {

// Beside the Timestamp in a checkpoint, when it is true; Composer passes over it.
inline constexpr const char* kStepAfterTime = "schedulers_step_after_time";

// Whether the run that saved `saved` (a "state" in the present layout, from `time`) steps that way;
// logs so. `state` has loaded its schedulers, and nothing of it is changed.
//
//  1. A checkpoint of cairn says so.
//  2. One of Composer with "metadata" is of 0.11 or newer.
//  3. Otherwise the saved rates show it, where those of `time` and of a batch earlier differ.
//  4. Otherwise it is so without a "run_name", which Composer saves since 0.10.
bool steps_after_time(const Value& saved, const Timestamp& time, State& state, Logger& logger);

}  // namespace cairn
