#include "checkpoint/names/patterns.h"

#include "cairn/checkpoint/ignore_keys.h"

namespace cairn {

bool Patterns::match(const std::string& path) {
  bool any = false;
  for (std::size_t i = 0; i < patterns_.size(); ++i) {
    if (!glob_match(patterns_[i], path)) continue;
    has_matched_[i] = true;
    any = true;
  }
  return any;
}

std::vector<std::string> Patterns::unmatched() const {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < patterns_.size(); ++i) {
    if (!has_matched_[i]) result.push_back(patterns_[i]);
  }
  return result;
}

}  // namespace cairn
