#pragma once

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/value.h"

namespace cairn {

class Logger;
class State;

// The description of a checkpoint of `state` in its manifest.
CheckpointInfo checkpoint_info(const State& state, bool weights_only);

// Whether another rank writes this job's checkpoints. Ranks above 0 only give that rank, in
// checkpoint_value(), what it cannot know itself.
bool is_written_elsewhere();

// Removes from a checkpoint what the keys match. `logger`, if not null, gets a warning for each
// pattern that matched nothing.
void leave_out(Value& checkpoint, const IgnoreKeys& keys, Logger* logger);

// This rank's entry in the "rng" list of a checkpoint of `state`.
Value rng_of_this_rank(const State& state);
// The entries of all ranks, by rank. All ranks must call it. In one process, its own.
Value rng_of_all_ranks(const State& state);

}  // namespace cairn
