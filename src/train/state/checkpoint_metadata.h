// The "metadata" entry of a checkpoint: where and how it was written. For people and tools; nothing
// reads it back.
#pragma once

#include "cairn/value.h"

namespace cairn {

class State;

// Composer's keys. What Composer says of its own installation is said of cairn's here.
Value checkpoint_metadata(const State& state);

}  // namespace cairn
