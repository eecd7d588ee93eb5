// Chooses cases of a test that attacks hundreds of places: calls, allocations, bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/environment.h"

namespace cairn::testing {

// About `some` of the cases 1 to `count`, evenly spread. CAIRN_CASES in the environment changes
// that: with "all", which `./check --release` sets, these are all cases; with a number this one, to
// run again what failed.
inline std::vector<std::uint64_t> chosen_cases(std::uint64_t count, std::uint64_t some) {
  const std::string which = environment("CAIRN_CASES");
  if (!which.empty() && which != "all") {
    const std::uint64_t one = std::stoull(which);
    if (one == 0 || one > count)
      throw std::out_of_range("CAIRN_CASES is 1 to " + std::to_string(count));
    return {one};
  }
  const std::uint64_t step = which == "all" ? 1 : std::max<std::uint64_t>(count / some, 1);
  std::vector<std::uint64_t> cases;
  for (std::uint64_t at = 1; at <= count; at += step)
    cases.push_back(at);
  return cases;
}

}  // namespace cairn::testing
