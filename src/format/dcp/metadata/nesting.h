// Rebuilds the tree from which the items of a folder were flattened.
#pragma once

#include <cstdint>

#include "cairn/value.h"

#include "format/dcp/metadata/metadata.h"

namespace cairn::dcp {

// Puts items back into their places in the tree, as PyTorch's dcp_to_torch_save does. Creates the
// dicts and lists that contain them, in the order of the items.
class Nesting {
 public:
  // `budget` limits the bytes of keys, and of list items that are created to fill gaps.
  explicit Nesting(std::uint64_t budget) : budget_(budget) {}

  // Throws CorruptError if the place is taken or lies below another item.
  void set(const Item& item, Value value);
  Value take() { return std::move(root_); }

 private:
  Value& enter(Value& container, const PathPart& part);
  void spend(std::uint64_t amount);

  Value root_ = Dict();
  std::uint64_t budget_;
};

}  // namespace cairn::dcp
