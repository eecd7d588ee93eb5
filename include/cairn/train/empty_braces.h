// Makes the compiler's errors say how options are written.
#pragma once

#include <concepts>

#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {

// Converts from {} only. A class with options takes it, too: EMA({}) is EMA(). For wrong options
// (EMA("4ba"), EMA({.half_lief = "4ba"})) the compiler shows the line of each constructor. The
// comment on this constructor's line says what to write.
enum class EmptyBraces : unsigned char {};

namespace detail {

struct NoValue {
  NoValue() = delete;
};

// A deleted constructor of std::initializer_list<NeverMatches> is never chosen. Such a constructor
// makes GCC list the constructors for EMA{.half_life = "4ba"}, too. Do not use it in classes whose
// options have fields that are written in braces: GCC would call Adam({.betas = {0.9, 0.99}})
// ambiguous.
template <class T>
concept NeverMatches = std::same_as<T, NoValue>;

}  // namespace detail
}  // namespace cairn
