// Tensors of a tree that are not written, and the objects that hold them.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "cairn/tensor.h"
#include "cairn/value.h"

namespace cairn {

using Storages = std::unordered_set<const Storage*>;

struct LostObject {
  std::string path;  // "model/0.weight"; "" for the root
  // Its class, or the name of its type; of a DTensor with its shape and placements.
  std::string what;
};

// The objects of a tree that hold a storage outside of `kept`: leaves, keys, attributes of dicts,
// and factories. Each is listed once.
std::vector<LostObject> lost_objects(const Value& root, const Storages& kept);

// The storages of all leaves of a tree, except those of DTensors: what a format holds that writes
// each leaf, and knows full tensors only.
Storages storages_of_leaves(const Value& root);

// Whether there is a tensor anywhere in it, also inside objects.
bool holds_tensor(const Value& value);

}  // namespace cairn
