// How much a tree shows: the bytes to go through for a look at every element of it.
#pragma once

#include <cstdint>

#include "cairn/value.h"

namespace cairn {

// The bytes of all tensors, arrays and texts, each counted as often as it stands in the tree. A
// tensor counts its elements, not its storage: four bytes may be shown as a GiB. A sparse tensor
// counts its dense form where that is in proportion. The largest number stands for all larger ones.
// Time grows with the tree's memory, not with the result.
std::uint64_t shown_bytes(const Value& root);

}  // namespace cairn
