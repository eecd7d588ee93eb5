// How many bytes a program goes through that looks at every element of a tree.
#pragma once

#include <cstdint>

#include "cairn/value.h"

namespace cairn {

// Returns the bytes of all tensors, arrays and texts, counted at each place in the tree. A tensor
// counts its elements, not its storage: four bytes may be shown as a GiB. A sparse tensor counts
// its dense form, too, if that is in proportion to the stored bytes. The result saturates at the
// largest number. Time grows with the tree's memory, not with the result.
std::uint64_t shown_bytes(const Value& root);

}  // namespace cairn
