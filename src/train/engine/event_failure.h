// Does what failure.h does, for exceptions of callbacks and algorithms.
#pragma once

#include <string>

#include "cairn/train/event.h"
#include "cairn/train/state.h"

namespace cairn {

// Call it inside a handler. `who` is "the callback SpeedMonitor". Rethrows cairn's own errors
// unchanged.
[[noreturn]] void rethrow_from_event(const std::string& who, Event event, const State& state);

}  // namespace cairn
