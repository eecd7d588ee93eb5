// Durations on the command line: "7d", "1w12h", "90m".
#pragma once

#include <chrono>
#include <string>

namespace cairn::cli {

// Returns the sum of numbers that each have a unit: w, d, h, m or s. For any other text, and for
// more than a thousand years, throws UsageError, which explains the grammar.
std::chrono::seconds parse_duration(const std::string& text);

}  // namespace cairn::cli
