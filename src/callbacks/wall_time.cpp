#include "callbacks/wall_time.h"

#include "cairn/error.h"

namespace cairn {

double seconds_of(const Word<WallTimeUnit>& unit, const std::string& callback) {
  if (unit == WallTimeUnit::kSeconds) return 1;
  if (unit == WallTimeUnit::kMinutes) return 60;
  if (unit == WallTimeUnit::kHours) return 3600;
  if (unit == WallTimeUnit::kDays) return 86400;
  throw UsageError(callback + ": time_unit is seconds, minutes, hours or days, not \"" + unit +
                   "\"");
}

}  // namespace cairn
