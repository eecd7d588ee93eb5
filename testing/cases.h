// Which cases a test takes that attacks hundreds of places: calls, allocations, bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/environment.h"

namespace cairn::testing {

// About `some` of the cases 1 to `count`, evenly spread. CAIRN_CASES in the environment changes
// that: with "all", which `./check --release` sets, these are all cases; with a number this one, to
// run again what failed.
inline std::vector<std::uint64_t> chosen_cases(std::uint64_t count, std::uint64_t some) {
  const std::string which = environment("CAIRN_CASES");
  if (!which.empty() && which != "all") return {std::stoull(which)};
  const std::uint64_t step = which == "all" ? 1 : std::max<std::uint64_t>(count / some, 1);
  std::vector<std::uint64_t> cases;
  for (std::uint64_t at = 1; at <= count; at += step)
    cases.push_back(at);
  return cases;
}

}  // namespace cairn::testing
