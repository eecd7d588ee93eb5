// The places where a saver's checkpoints may be: its folder, and the folders to which loggers
// uploaded them.
#pragma once

#include <vector>

#include "cairn/export.h"

#include "checkpoint/search/search_run.h"

namespace CAIRN_PUBLIC cairn {
class CheckpointSaver;
class Logger;
class State;
}  // namespace cairn

namespace cairn {

// Returns the saver's folder first, then those of the loggers in their order.
std::vector<SearchPlace> search_places(const CheckpointSaver& saver, const State& state,
                                       const Logger& logger);

}  // namespace cairn
