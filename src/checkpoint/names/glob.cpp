#include "checkpoint/names/glob.h"

#include <utility>

#include "cairn/checkpoint/ignore_keys.h"

#include "core/text/utf8.h"

namespace cairn {
namespace {

using Points = std::u32string_view;

// Whether `set`, the inside of "[...]", contains `c`. The set has single characters and ranges; a
// leading "!" negates the set. "-" stands for itself at either end and right after a range. A range
// whose end is below its start is empty.
bool set_holds(Points set, char32_t c) {
  const bool negated = set[0] == U'!';
  if (negated) set.remove_prefix(1);
  bool found = false;
  while (!set.empty()) {
    const bool range = set.size() >= 3 && set[1] == U'-';
    found = found || (c >= set[0] && c <= (range ? set[2] : set[0]));
    set.remove_prefix(range ? 3 : 1);
  }
  return found != negated;
}

// The number of pattern characters in the first element of `pattern` (not a "*") if that element
// matches `c`, else 0.
std::size_t match_one(Points pattern, char32_t c) {
  if (pattern[0] == U'?') return 1;
  if (pattern[0] == U'[') {
    std::size_t first = 1;  // a "]" right after "[" or "[!" does not close the set
    if (first < pattern.size() && pattern[first] == U'!') ++first;
    const std::size_t end = pattern.find(U']', first + 1);
    if (end != Points::npos) return set_holds(pattern.substr(1, end - 1), c) ? end + 1 : 0;
  }
  return pattern[0] == c ? 1 : 0;  // this includes a "[" that is never closed
}

}  // namespace

Glob::Glob(const std::string& pattern) : pattern_(code_points(pattern)) {}

Glob::Place Glob::begin() const {
  Place place;
  add(0, place);
  return place;
}

// A "*" may match nothing, so the element after it may come next, too. The "*" also matches
// everything that an earlier element would match, so the earlier elements are dropped.
void Glob::add(std::size_t element, Place& place) const {
  for (; element < pattern_.size() && pattern_[element] == U'*'; ++element) {
    place = {element};
  }
  place.push_back(element);
}

Glob::Place Glob::after(Place place, std::string_view text) const {
  Place next;
  for (const char32_t c : code_points(text)) {
    next.clear();
    for (const std::size_t element : place) {
      if (element == pattern_.size()) continue;
      if (pattern_[element] == U'*') {
        next.push_back(element);
        add(element + 1, next);
      } else if (const std::size_t taken = match_one(Points(pattern_).substr(element), c)) {
        add(element + taken, next);
      }
    }
    std::swap(place, next);
    if (place.empty()) break;
  }
  return place;
}

bool glob_match(const std::string& pattern, const std::string& text) {
  const Glob glob(pattern);
  return glob.matches(glob.after(glob.begin(), text));
}

}  // namespace cairn
