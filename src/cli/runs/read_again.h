// Reads files that are written to meanwhile.
#pragma once

#include <cstdint>

#include "cairn/error.h"

namespace cairn::cli {

// Calls `read`, which opens a file and reads on from `position`. A file refuses to be read if it
// was written to since it was opened: then `read` is called again. Gives up after twenty times
// without progress, and throws what `read` throws.
template <class Read>
auto read_again(const std::uint64_t& position, const Read& read) {
  constexpr int kMostAttempts = 20;
  for (int attempt = 1;; ++attempt) {
    const std::uint64_t before = position;
    try {
      return read();
    } catch (const UnreadableError&) {
      if (position != before) attempt = 0;
      if (attempt == kMostAttempts) throw;
    }
  }
}

}  // namespace cairn::cli
