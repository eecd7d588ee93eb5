// A tree as the list of named items that a torch.distributed.checkpoint folder holds.
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

// As PyTorch 2.4 and later do it: dicts are gone into always (an empty one leaves nothing), lists
// when they hold a tensor or a dict at any depth of lists; all else is an item. Keys become
// strings. UnsupportedError for a root that is no dict, for a key that has no obvious text, and for
// two items of one name. What stands at several places gives its items at each, or is in each item
// that it is a part of; where all places but the first take more than 64 MiB and eight times what
// the first ones do, without the elements of tensors, that is an UnsupportedError, too.
std::vector<FlatItem> flatten(const Value& root);

}  // namespace cairn::dcp
