// The next multiple of a number: where a block, a page or a padded record ends.
#pragma once

#include <concepts>
#include <type_traits>

#include "core/checked.h"

namespace cairn {

// The smallest multiple of `multiple`, which is not 0, that is no less than `n`. For sizes of what
// is in memory, or was checked: n + multiple must not overflow.
template <std::unsigned_integral T>
constexpr T round_up(T n, std::type_identity_t<T> multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// The same of a size that comes from a file: CorruptError instead of wrapping around.
template <std::unsigned_integral T>
T checked_round_up(T n, std::type_identity_t<T> multiple) {
  return checked_add<T>(n, multiple - 1) / multiple * multiple;
}

}  // namespace cairn
