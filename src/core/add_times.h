// Adds times, and the counts in times. Throws UsageError instead of wrapping around.
#pragma once

#include <cstdint>

#include "cairn/error.h"

namespace cairn {

inline std::int64_t add_times(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    throw UsageError("adding times: the result does not fit 64 bits");
  }
  return sum;
}

}  // namespace cairn
