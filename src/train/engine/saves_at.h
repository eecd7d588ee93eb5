// Whether a checkpoint is about to be saved.
#pragma once

#include "cairn/train/event.h"
#include "cairn/train/state.h"

namespace cairn {

// Whether a callback will save the state at this checkpoint event, which has not happened yet. Asks
// every callback, even after one said yes: a callback's answer may depend on having been asked.
bool saves_at(Event event, const State& state);

}  // namespace cairn
