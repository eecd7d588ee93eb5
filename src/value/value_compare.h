// Python's equality and hashing of Values.
#pragma once

#include "cairn/value.h"

namespace cairn {

bool equal_values(const Value& a, const Value& b);

// Returns whether `a` and `b` are the same key of a dict. Compares as equal_values() does, except
// that tensors are equal only if they are one object, also in tuples.
bool equal_keys(const Value& a, const Value& b);

// Returns whether `v` is a number that equals nothing, not even itself.
bool is_nan(const Value& v);

// Returns whether the integers of two tensors mean the same numbers. Either may be null.
bool equal_quantizers(const Quantizer* a, const Quantizer* b);

}  // namespace cairn
