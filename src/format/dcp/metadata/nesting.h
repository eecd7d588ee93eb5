// The tree that the items of a folder were flattened from.
#pragma once

#include <cstdint>

#include "cairn/value.h"

#include "format/dcp/metadata/metadata.h"

namespace cairn::dcp {

// Puts items back where they were, as PyTorch's dcp_to_torch_save does: dicts and lists come into
// being on the way, in the order of the items.
class Nesting {
 public:
  // `budget` bounds the bytes of keys and the list items that are made without being asked for.
  explicit Nesting(std::uint64_t budget) : budget_(budget) {}

  // CorruptError when another item stands in the way.
  void set(const Item& item, Value value);
  Value take() { return std::move(root_); }

 private:
  Value& enter(Value& container, const PathPart& part);
  void spend(std::uint64_t amount);

  Value root_ = Dict();
  std::uint64_t budget_;
};

}  // namespace cairn::dcp
