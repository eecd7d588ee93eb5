// Places for a sharded run's checkpoints at the loggers that keep files: one for each logger. All
// ranks save in these places as they do in the save folder.
#pragma once

#include <vector>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {
class Logger;
class State;
}  // namespace cairn

namespace cairn {

// Collective. Returns a saver's options for each of these places; `options` are those of the save
// folder. Throws UsageError if the ranks have different loggers, and UnsupportedError if a logger
// does not say where it keeps files.
std::vector<CheckpointSaverOptions> places_of_loggers(const CheckpointSaverOptions& options,
                                                      const State& state, const Logger& logger);

}  // namespace cairn
