// Shell-style patterns, as Python's fnmatch.fnmatchcase.
#include <algorithm>
#include <string_view>

#include "cairn/checkpoint/ignore_keys.h"

#include "core/utf8.h"

namespace cairn {
namespace {

using Points = std::u32string_view;

// Whether the inside of "[...]" names `c`: single characters and ranges, after "!" all others. "-"
// is itself at either end and right after a range; a range that ends before it starts is empty.
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

// Characters that the first element of `pattern` (not a "*") takes when it matches `c`; 0 when it
// does not match.
std::size_t match_one(Points pattern, char32_t c) {
  if (pattern[0] == U'?') return 1;
  if (pattern[0] == U'[') {
    std::size_t first = 1;  // the first place where "]" closes, which is not right at the start
    if (first < pattern.size() && pattern[first] == U'!') ++first;
    const std::size_t end = pattern.find(U']', first + 1);
    if (end != Points::npos) return set_holds(pattern.substr(1, end - 1), c) ? end + 1 : 0;
  }
  return pattern[0] == c ? 1 : 0;  // also a "[" that is never closed
}

// Only the last "*" that was met ever needs to give back: the work is at most
// |pattern| * |text|.
bool match(Points pattern, Points text) {
  Points after_star;  // the pattern behind the last "*", and the text that it has not yet taken
  Points left_by_star;
  bool has_star = false;
  while (true) {
    if (!pattern.empty() && pattern[0] == U'*') {
      pattern.remove_prefix(1);
      after_star = pattern;
      left_by_star = text;
      has_star = true;
      continue;
    }
    if (text.empty()) return pattern.empty();
    const std::size_t taken = pattern.empty() ? 0 : match_one(pattern, text[0]);
    if (taken > 0) {
      pattern.remove_prefix(taken);
      text.remove_prefix(1);
    } else {
      if (!has_star) return false;
      left_by_star.remove_prefix(1);
      pattern = after_star;
      text = left_by_star;
    }
  }
}

}  // namespace

bool glob_match(const std::string& pattern, const std::string& text) {
  return match(code_points(pattern), code_points(text));
}

}  // namespace cairn
