// Flattens a tree to the list of named items that a torch.distributed.checkpoint folder holds.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "cairn/value.h"

namespace cairn::dcp {

struct FlatItem {
  std::string fqn;  // the path, joined by dots
  std::vector<std::variant<std::string, std::int64_t>> path;
  const Value* value = nullptr;  // in the tree that was flattened
};

// Flattens as PyTorch 2.4 and later do. Dicts are always entered (an empty dict gives no item);
// lists are entered if they hold a tensor or a dict at any depth of lists. Everything else is an
// item. Keys become strings. A value at several places gives its items at each place, or is part of
// each item that holds it.
//
// Throws UnsupportedError for a root that is no dict, for a key that has no obvious text, and for
// two items of one name. Also throws it for a tree that repeats values too often. The bytes that
// values take at their later places, without elements of tensors, may be at most 64 MiB plus eight
// times the bytes at their first places.
std::vector<FlatItem> flatten(const Value& root);

}  // namespace cairn::dcp
