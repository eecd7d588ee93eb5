// A tree without the objects of classes that cairn does not know.
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

// Leaves foreign objects out: entries of dicts (by key or value) and items of sets go, items of
// lists and tuples become None, so that the others keep their places. Also those in the attributes
// of dicts, and factories of defaultdicts that are none of Python's own types. UnsupportedError
// when the root is one. What is one object at several places stays one.
WithoutForeign drop_foreign(const Value& root);

}  // namespace cairn
