#pragma once

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/export.h"
#include "cairn/value.h"

namespace CAIRN_PUBLIC cairn {
class Logger;
class State;
}  // namespace cairn

namespace cairn {

// The description of a checkpoint of `state` in its manifest.
CheckpointInfo checkpoint_info(const State& state, bool weights_only);

// Whether another rank writes this job's checkpoints. If so, checkpoint_value() on this rank only
// gives that rank what that rank cannot know itself.
bool is_written_elsewhere();

// Removes from a checkpoint the entries that `keys` matches. `logger`, if not null, gets a warning
// for each pattern that matched nothing.
void leave_out(Value& checkpoint, const IgnoreKeys& keys, Logger* logger);

// This rank's entry in the "rng" list of a checkpoint of `state`.
Value rng_of_this_rank(const State& state);
// The entries of all ranks, by rank. All ranks must call it. In a job of one process, the entry of
// this process.
Value rng_of_all_ranks(const State& state);

}  // namespace cairn
