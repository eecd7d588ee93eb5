// How a dict key is written in a path.
#pragma once

#include <string>

#include "cairn/value.h"

namespace cairn {

// Python's str(key) for texts, numbers, bools and None; the type's name for other keys.
std::string key_text(const Value& key);
// Whether keys of one kind have one text only when they are equal. Not of tensors, tuples, bytes
// and other objects: who compares must look at the key itself.
bool is_told_by_text(const Value& key);

}  // namespace cairn
