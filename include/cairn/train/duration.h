// Duration: a length of training, where Composer takes Union[int, str, Time].
#pragma once

#include <concepts>
#include <cstdint>
#include <string>

#include "cairn/export.h"
#include "cairn/time.h"

namespace CAIRN_PUBLIC cairn {

// A number of epochs, a time string, or a Time: 20, "20ep", Time::epochs(20). The option says which
// units it accepts. Throws UsageError for a text that is not a time.
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
