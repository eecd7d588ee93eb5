// What a run begins with that does not go on from a checkpoint of its own: load_path.
#pragma once

#include "resuming/load_run.h"

namespace cairn {

// Collective. Loads load_path ({run_name}, {rank} in it are filled in) with its options into
// `state`, whose run_name stays the present one, and logs which checkpoint and the position.
// Without load_path nothing is loaded. Throws on all ranks when one cannot load it.
LoadOutcome load_from_load_path(const TrainerOptions& options, State& state, Logger& logger);

// Logs which options of load_path were set, and had nothing to act on.
void tell_unused_options(const TrainerOptions& options, const LoadOutcome& outcome, Logger& logger);

}  // namespace cairn
