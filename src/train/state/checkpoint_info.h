#pragma once

#include "cairn/checkpoint/checkpoint.h"

namespace cairn {

class State;

// What a checkpoint of `state` says of itself in its manifest.
CheckpointInfo checkpoint_info(const State& state, bool weights_only);

}  // namespace cairn
