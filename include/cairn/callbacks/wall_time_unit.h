// WallTimeUnit: the unit in which callbacks log lengths of time.
#pragma once

#include <array>
#include <cstdint>

#include "cairn/export.h"
#include "cairn/word.h"

namespace CAIRN_PUBLIC cairn {

enum class WallTimeUnit : std::uint8_t { kSeconds, kMinutes, kHours, kDays };
template <>
struct WordsOf<WallTimeUnit> {
  static constexpr std::array kAll = {"seconds", "minutes", "hours", "days"};
};

}  // namespace cairn
