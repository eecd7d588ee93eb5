// The same as failure.h, for callbacks and algorithms.
#pragma once

#include <string>

#include "cairn/train/event.h"
#include "cairn/train/state.h"

namespace cairn {

// Inside a handler. `who` is "the callback SpeedMonitor". cairn's own errors pass as they are.
[[noreturn]] void rethrow_from_event(const std::string& who, Event event, const State& state);

}  // namespace cairn
