// The checkpoint with which a run begins if it does not resume from its own: load_path.
#pragma once

#include "resuming/load_run.h"

namespace cairn {

// Collective. Loads load_path with its options into `state`, and logs the checkpoint and the
// position. Fills in {run_name} and {rank} in the path. `state` keeps its run_name. Loads nothing
// if there is no load_path. Throws on all ranks if one of them cannot load it.
LoadOutcome load_from_load_path(const TrainerOptions& options, State& state, Logger& logger);

// Logs the options for load_path that were set but had no effect.
void log_unused_options(const TrainerOptions& options, const LoadOutcome& outcome, Logger& logger);

}  // namespace cairn
