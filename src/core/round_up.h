// Rounds up to a multiple: where a block, a page or a padded record ends.
#pragma once

#include <concepts>
#include <type_traits>

#include "core/checked.h"

namespace cairn {

// The smallest multiple of `multiple` that is at least `n`. `multiple` is not 0, and n + multiple
// must not overflow. So use it for sizes in memory and for checked sizes.
template <std::unsigned_integral T>
constexpr T round_up(T n, std::type_identity_t<T> multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// As above for a size from a file. Throws CorruptError instead of wrapping around.
template <std::unsigned_integral T>
T checked_round_up(T n, std::type_identity_t<T> multiple) {
  return checked_add<T>(n, multiple - 1) / multiple * multiple;
}

}  // namespace cairn
