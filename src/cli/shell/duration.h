// Durations on the command line: "7d", "1w12h", "90m".
#pragma once

#include <chrono>
#include <string>

namespace cairn::cli {

// The sum of numbers with w, d, h, m or s. Throws UsageError, with the grammar, for anything else,
// and for more than a thousand years.
std::chrono::seconds parse_duration(const std::string& text);

}  // namespace cairn::cli
