// Counts in mixed units, normalised as Python does: days, seconds, microseconds.
#pragma once

#include <cstdint>

namespace cairn {

// Converts `count` to the next larger unit, of which each has `per` small ones. Returns the number
// of large units, rounded down. Leaves the rest, from 0 to per - 1, in `count`.
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
