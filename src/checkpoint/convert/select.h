// Parts of a tree, chosen by patterns over paths.
#pragma once

#include <string>
#include <vector>

#include "cairn/value.h"

namespace cairn {

struct Selection {
  // Patterns as glob_match() takes them, for whole paths; what matches is meant with all that is in
  // it. A part is kept when it matches an `include` pattern, or there is none, and matches no
  // `exclude` pattern. Containers of what is kept are kept.
  std::vector<std::string> include;
  std::vector<std::string> exclude;
};

// Items of lists that go make the later ones move up. What is one container at several places stays
// one where all of it is kept, and where the same patterns lead to each of its places ("*/x", not
// "a/x" and "b/x"). It is looked through once for each way in which they do: neither time nor
// memory grows with the number of places. UsageError naming a pattern that matches nothing, or when
// nothing is kept.
Value select(const Value& root, const Selection& selection);

}  // namespace cairn
