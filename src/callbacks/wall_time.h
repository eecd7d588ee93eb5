// Lengths of time as callbacks log them.
#pragma once

#include <string>

#include "cairn/callbacks/wall_time_unit.h"
#include "cairn/word.h"

namespace cairn {

// The seconds of one unit. Throws UsageError that names `callback` for any other word.
double seconds_of(const Word<WallTimeUnit>& unit, const std::string& callback);

}  // namespace cairn
