// Selects parts of a tree by patterns for their paths.
#pragma once

#include <string>
#include <vector>

#include "cairn/value.h"

namespace cairn {

struct Selection {
  // Patterns with the syntax of glob_match(). A pattern must match a whole path. A pattern that
  // matches a part also covers everything in it. A part is kept if it matches an `include` pattern
  // (or if there are no `include` patterns) and no `exclude` pattern. The containers of kept parts
  // are kept.
  std::vector<std::string> include;
  std::vector<std::string> exclude;
};

// Returns the selected parts. If items of a list are removed, later items move up. A container at
// several places stays one container if all of it is kept. If only a part is kept, it stays one
// container if the same patterns match at each place ("*/x", not "a/x" and "b/x"). A container is
// searched once for each set of patterns that matches there. So neither time nor memory grows with
// the number of places. Throws UsageError
// if a pattern matches nothing, naming the pattern, or if nothing is kept.
Value select(const Value& root, const Selection& selection);

}  // namespace cairn
