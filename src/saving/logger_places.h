// Where the loggers that keep files keep a sharded run's checkpoints: a place of its own for each,
// where all ranks save as they do in the save folder.
#pragma once

#include <vector>

#include "cairn/callbacks/checkpoint_saver.h"

namespace cairn {

class Logger;
class State;

// The options of a saver in each of them; `options` are those of the save folder. On all ranks
// together. UsageError if the ranks have different loggers; UnsupportedError for a logger that does
// not say where it keeps files.
std::vector<CheckpointSaverOptions> places_of_loggers(const CheckpointSaverOptions& options,
                                                      const State& state, const Logger& logger);

}  // namespace cairn
