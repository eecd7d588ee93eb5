// A shell-style pattern that is matched against a text piece by piece.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

// Matches as Python's fnmatch.fnmatchcase does.
class Glob {
 public:
  // The pattern elements that may match next, ascending. If two texts lead to equal places, every
  // continuation matches after both texts or after neither. Empty: no continuation can match.
  using Place = std::vector<std::size_t>;

  explicit Glob(const std::string& pattern);

  Place begin() const;
  // Takes time in proportion to the length of the text times the length of the pattern.
  Place after(Place place, std::string_view text) const;
  // Whether the text so far matches the whole pattern.
  bool matches(const Place& place) const {
    return !place.empty() && place.back() == pattern_.size();
  }

 private:
  void add(std::size_t element, Place& place) const;

  std::u32string pattern_;
};

}  // namespace cairn
