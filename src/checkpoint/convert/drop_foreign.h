// Removes the objects of classes that cairn does not know from a tree.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cairn/value.h"

namespace cairn {

struct WithoutForeign {
  Value value;
  std::vector<std::pair<std::string, std::string>> dropped;  // path and class
};

// Leaves out foreign objects. Entries of dicts (with a foreign key or value) and items of sets are
// removed. Foreign items of lists and tuples become None, so that the other items keep their
// places. Foreign objects in the attributes of dicts are removed, too, and factories of
// defaultdicts unless they are Python's own types. An object at several places stays one object.
// Throws UnsupportedError if the root is a foreign object.
WithoutForeign drop_foreign(const Value& root);

}  // namespace cairn
