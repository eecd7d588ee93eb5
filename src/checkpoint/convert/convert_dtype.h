// Converts the floating-point tensors of a tree to another precision.
#pragma once

#include <string>

#include "cairn/value.h"

namespace cairn {

// Tensors of float16, bfloat16, float32 and float64 become `dtype`, which is one of these four. All
// other tensors stay. The storages become lazy: each storage is converted when its bytes are asked
// for. Small storages are converted in memory, large ones through a scratch file in
// `scratch_folder`. Rounds once, to the nearest, ties to even. Values that are too large become
// infinite.
Value convert_dtype(const Value& root, DType dtype, const std::string& scratch_folder = {});

}  // namespace cairn
