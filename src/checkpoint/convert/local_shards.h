// Replaces the DTensors of a tree by the shards that the file holds.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cairn/value.h"

namespace cairn {

struct LocalShards {
  Value value;
  std::vector<std::pair<std::string, std::string>> shards;  // path, and placement_text()
};

// Looks at the values of dicts, and at the items of lists and tuples. An object at several places
// stays one object. DTensors of a form that cairn does not know stay as they are.
LocalShards local_shards(const Value& root);

}  // namespace cairn
