// Arithmetic on sizes that come from a file. Throws CorruptError instead of wrapping around.
#pragma once

#include <concepts>

#include "cairn/error.h"

namespace cairn {

template <std::integral T>
T checked_add(T a, T b) {
  T sum;
  if (__builtin_add_overflow(a, b, &sum)) throw CorruptError("a size in the file overflows");
  return sum;
}

template <std::integral T>
T checked_multiply(T a, T b) {
  T product;
  if (__builtin_mul_overflow(a, b, &product)) throw CorruptError("a size in the file overflows");
  return product;
}

}  // namespace cairn
