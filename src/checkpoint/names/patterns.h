// Patterns for paths that remember whether they matched.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/names/glob.h"

namespace cairn {

// A walk over a tree carries the path along as a Place. If two paths have equal Places, everything
// below them matches alike. So a subtree that is shared by many paths is searched once for each
// Place, not once for each path. A small file can have any number of paths to one subtree.
class Patterns {
 public:
  using Place = std::vector<Glob::Place>;  // one for each pattern

  // `patterns` have the syntax of glob_match(), and must outlive this object.
  explicit Patterns(const std::vector<std::string>& patterns)
      : patterns_(patterns),
        globs_(patterns.begin(), patterns.end()),
        has_matched_(patterns.size()) {}

  Place begin() const;
  Place after(Place place, std::string_view text) const;

  // Whether any pattern matches. Tries all of them, so that unmatched() is complete.
  bool match(const Place& path);

  // The patterns that have never matched.
  std::vector<std::string> unmatched() const;

 private:
  const std::vector<std::string>& patterns_;
  std::vector<Glob> globs_;
  std::vector<bool> has_matched_;
};

}  // namespace cairn
