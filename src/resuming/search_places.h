// The places where a saver's checkpoints may be: its folder, and the folders to which loggers
// uploaded them.
#pragma once

#include <vector>

#include "cairn/export.h"

#include "checkpoint/search/search_run.h"

namespace cairn {

class CAIRN_PUBLIC CheckpointSaver;
class CAIRN_PUBLIC Logger;
class CAIRN_PUBLIC State;

// Returns the saver's folder first, then those of the loggers in their order.
std::vector<SearchPlace> search_places(const CheckpointSaver& saver, const State& state,
                                       const Logger& logger);

}  // namespace cairn
