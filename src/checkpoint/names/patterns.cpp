#include "checkpoint/names/patterns.h"

#include <utility>

namespace cairn {

Patterns::Place Patterns::begin() const {
  Place place;
  for (const Glob& glob : globs_) {
    place.push_back(glob.begin());
  }
  return place;
}

Patterns::Place Patterns::after(Place place, std::string_view text) const {
  for (std::size_t i = 0; i < globs_.size(); ++i) {
    place[i] = globs_[i].after(std::move(place[i]), text);
  }
  return place;
}

bool Patterns::match(const Place& path) {
  bool any = false;
  for (std::size_t i = 0; i < globs_.size(); ++i) {
    if (!globs_[i].matches(path[i])) continue;
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
