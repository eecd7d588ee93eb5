// Where the checkpoints of a saver may lie: in its folder, and where loggers uploaded them to.
#pragma once

#include <vector>

#include "checkpoint/search/search_run.h"

namespace cairn {

class CheckpointSaver;
class Logger;
class State;

// The saver's folder first, then those of the loggers in their order.
std::vector<SearchPlace> search_places(const CheckpointSaver& saver, const State& state,
                                       const Logger& logger);

}  // namespace cairn
