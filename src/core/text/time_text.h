// The grammar of time strings.
//
//   time      = [blanks] (clock | number [blanks] unit) [blanks]
//   clock     = [hours "h"] [minutes "m"] [seconds "s"]    at least one; 0-23, 0-59, 0-59
//   number    = as Python's float() reads it, except inf and nan: "3", "-1.5", "3e4", "1_000"
//   unit      = "iter" | "ep" | "ba" | "sp" | "tok" | "dur" | "sec"
//
// Letters may be upper or lower case. Numbers must be integers ("2.0ba", "3e4tok"), except those of
// "dur" and "sec", and are exact over all of int64.
#pragma once

#include <array>
#include <string_view>

#include "cairn/time.h"

namespace cairn {

// The names of the units, indexed by TimeUnit. operator""_time, which is public, repeats these
// names; a test compares the two lists.
inline constexpr std::array<std::string_view, 7> kTimeUnits = {"iter", "ep",  "ba", "sp",
                                                               "tok",  "dur", "sec"};

// Throws UsageError for any other text, and for a number that is out of range or no integer.
Time parse_time(std::string_view text);

}  // namespace cairn
