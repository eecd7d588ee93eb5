// The keys of a dict with text keys, in order.
#pragma once

#include <string>
#include <vector>

#include "cairn/value.h"

namespace cairn::testing {

inline std::vector<std::string> keys(const Value& dict) {
  std::vector<std::string> found;
  for (const auto& [key, value] : dict.as_dict()) {
    found.push_back(key.as_str());
  }
  return found;
}

}  // namespace cairn::testing
