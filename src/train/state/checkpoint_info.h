#pragma once

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/value.h"

namespace cairn {

class State;

// What a checkpoint of `state` says of itself in its manifest.
CheckpointInfo checkpoint_info(const State& state, bool weights_only);

// Whether another rank writes the checkpoints of this job: those above 0 only give it what it
// cannot know, in checkpoint_value().
bool is_written_elsewhere();

// rng_states() of all ranks, by rank; all call it. In one process its own.
Value rng_of_all_ranks();

}  // namespace cairn
