// Duration: how long, where Composer takes Union[int, str, Time].
#pragma once

#include <concepts>
#include <cstdint>
#include <string>

#include "cairn/time.h"

namespace cairn {

// An int of epochs, a time string, or a Time: 20, "20ep", Time::epochs(20). Which units may be used
// the option says. UsageError for a text that is no time.
class Duration {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  template <std::integral Int>
  requires(!std::same_as<Int, bool>) Duration(Int epochs)
      : time_(Time::epochs(static_cast<std::int64_t>(epochs))) {}
  Duration(const char* text) : time_(text) {}
  Duration(const std::string& text) : time_(text) {}
  Duration(Time time) : time_(time) {}
  // NOLINTEND(google-explicit-constructor)
  const Time& time() const { return time_; }

 private:
  Time time_;
};

}  // namespace cairn
