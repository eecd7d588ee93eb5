// A duration in options.
#pragma once

#include <chrono>
#include <type_traits>

#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {

// A std::chrono duration, or a number of seconds as in Python: std::chrono::minutes(5), 300.0.
class Seconds : public std::chrono::duration<double> {
 public:
  // NOLINTBEGIN(google-explicit-constructor): options read like Python
  template <class Number>
  requires std::is_arithmetic_v<Number> Seconds(Number seconds)
      : duration(static_cast<double>(seconds)) {}
  template <class Rep, class Period>
  Seconds(std::chrono::duration<Rep, Period> time) : duration(time) {}
  // NOLINTEND(google-explicit-constructor)
};

}  // namespace cairn
