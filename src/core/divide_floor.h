// Counts in mixed units, as Python normalizes them: days, seconds, microseconds.
#pragma once

#include <cstdint>

namespace cairn {

// Of `count` of a unit of which `per` make one of the next: how many of the next there are, rounded
// down. The rest, from 0 to per - 1, stays in `count`.
constexpr std::int64_t divide_floor(std::int64_t& count, std::int64_t per) {
  std::int64_t quotient = count / per;
  count %= per;
  if (count < 0) {
    count += per;
    --quotient;
  }
  return quotient;
}

}  // namespace cairn
