// A shell-style pattern that is taken through a text piece by piece.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

// As Python's fnmatch.fnmatchcase.
class Glob {
 public:
  // The elements of the pattern that may come next, ascending. From equal places all that follows
  // matches alike, whatever texts led there. Empty: nothing will match any more.
  using Place = std::vector<std::size_t>;

  explicit Glob(const std::string& pattern);

  Place begin() const;
  // Time: at most the length of the pattern for each character.
  Place after(Place place, std::string_view text) const;
  // Whether what was read so far is a match.
  bool matches(const Place& place) const {
    return !place.empty() && place.back() == pattern_.size();
  }

 private:
  void add(std::size_t element, Place& place) const;

  std::u32string pattern_;
};

}  // namespace cairn
