// Patterns for paths that remember whether they matched.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/names/glob.h"

namespace cairn {

// A walk over a tree takes the path along as a Place. What two paths of one Place lead to is
// matched alike below them, so that a part which stands at several places of a tree is looked
// through once for each Place, and not once for each path: of those a small file can have any
// number.
class Patterns {
 public:
  using Place = std::vector<Glob::Place>;  // of each pattern

  // As glob_match() takes them. Borrowed.
  explicit Patterns(const std::vector<std::string>& patterns)
      : patterns_(patterns),
        globs_(patterns.begin(), patterns.end()),
        has_matched_(patterns.size()) {}

  Place begin() const;
  Place after(Place place, std::string_view text) const;

  // Whether any matches. All are tried.
  bool match(const Place& path);

  // Those that never did.
  std::vector<std::string> unmatched() const;

 private:
  const std::vector<std::string>& patterns_;
  std::vector<Glob> globs_;
  std::vector<bool> has_matched_;
};

}  // namespace cairn
