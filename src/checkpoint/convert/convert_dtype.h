// A tree with its floating-point tensors in another precision.
#pragma once

#include <string>

#include "cairn/value.h"

namespace cairn {

// float16, bfloat16, float32 and float64 tensors become `dtype`, one of these; all others stay.
// Storages become lazy: each is converted when it is asked for, in memory when it is small and
// through a scratch file in `scratch_folder` otherwise. Rounds to the nearest, ties to even, once;
// what is too large becomes infinite.
Value convert_dtype(const Value& root, DType dtype, const std::string& scratch_folder = {});

}  // namespace cairn
