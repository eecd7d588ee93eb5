#pragma once

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/value.h"

namespace cairn {

class Logger;
class State;

// What a checkpoint of `state` says of itself in its manifest.
CheckpointInfo checkpoint_info(const State& state, bool weights_only);

// Whether another rank writes the checkpoints of this job: those above 0 only give it what it
// cannot know, in checkpoint_value().
bool is_written_elsewhere();

// Takes out of a checkpoint what the keys match. `logger`, if not null, gets a warning for each
// pattern that matched nothing.
void leave_out(Value& checkpoint, const IgnoreKeys& keys, Logger* logger);

// The entry of this rank in the "rng" list of a checkpoint of `state`.
Value rng_of_this_rank(const State& state);
// Those of all ranks, by rank; all call it. In one process its own.
Value rng_of_all_ranks(const State& state);

}  // namespace cairn
