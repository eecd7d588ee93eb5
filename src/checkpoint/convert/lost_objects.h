// Finds the tensors of a tree that are not written, and the objects that hold them.
#pragma once

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cairn/tensor.h"
#include "cairn/value.h"

namespace cairn {

using Storages = std::unordered_set<const Storage*>;

struct LostObject {
  std::string path;  // "model/0.weight"; "" for the root
  // The class of the object, or the name of its type. For a DTensor, also its shape and placements.
  std::string what;
  bool is_shard = false;  // a DTensor: files of other ranks may complete it
};

// Returns the objects of a tree that hold a storage outside of `kept`: leaves, keys, attributes of
// dicts, and factories. Lists each object once.
std::vector<LostObject> lost_objects(const Value& root, const Storages& kept);

// Returns the storages of all leaves of a tree, except those of DTensors. A format that writes each
// leaf, and knows only full tensors, holds these storages.
Storages storages_of_leaves(const Value& root);

// Paths of the tensors that had attributes in Python, and the names of these attributes: see
// TensorView::lost_attributes.
std::vector<std::pair<std::string, std::string>> lost_attributes(const Value& root);

// Whether there is a tensor anywhere in `value`, also inside objects.
bool holds_tensor(const Value& value);

}  // namespace cairn
