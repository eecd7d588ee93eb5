// The clock of loggers.
#pragma once

#include <chrono>

namespace cairn {

// Seconds since 1970.
inline double system_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace cairn
