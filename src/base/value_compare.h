// Python's equality and hashing of Values.
#pragma once

#include "cairn/value.h"

namespace cairn {

bool equal_values(const Value& a, const Value& b);

}  // namespace cairn
