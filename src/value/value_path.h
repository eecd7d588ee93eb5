// The text of a dict key in a path.
#pragma once

#include <string>

#include "cairn/value.h"

namespace cairn {

// Returns Python's str(key) for texts, numbers, bools and None; the type's name for other keys.
std::string key_text(const Value& key);
// Returns whether two keys of this kind with the same text are always equal. That is not so for
// tensors, tuples, bytes and other objects, whose keys must be compared themselves.
bool has_unique_text(const Value& key);

}  // namespace cairn
