// Python's equality and hashing of Values.
#pragma once

#include "cairn/value.h"

namespace cairn {

bool equal_values(const Value& a, const Value& b);

// Whether the two are one key of a dict: as equal_values(), but tensors are when they are one
// object, also in tuples.
bool equal_keys(const Value& a, const Value& b);

// A float that is equal to nothing, itself included.
bool is_nan(const Value& v);

// Whether the integers of two tensors stand for the same numbers; either may be null.
bool equal_quantizers(const Quantizer* a, const Quantizer* b);

}  // namespace cairn
