// Intervals of callbacks that look at single batches.
#pragma once

#include <string>

#include "cairn/error.h"
#include "cairn/time.h"

namespace cairn {

// Throws UsageError unless `interval` is a number of batches or epochs, at least 1. `who`: the
// callback.
inline void check_counted_interval(const std::string& who, const Time& interval) {
  const bool is_counted =
      interval.unit() == TimeUnit::kBatch || interval.unit() == TimeUnit::kEpoch;
  if (is_counted && interval.value() >= 1) return;
  throw UsageError(who + ": interval is a number of batches or epochs, at least 1, not " +
                   interval.to_string());
}

}  // namespace cairn
