// A tree with the shards that a file holds in place of its DTensors.
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

// Values of dicts, and items of lists and tuples; what is one object at several places stays one.
// DTensors of a form that cairn does not know stay what they are.
LocalShards local_shards(const Value& root);

}  // namespace cairn
