// Scalar types of libtorch and of the core; view_of() and tensor_of() are public
// (cairn/train/state_dict.h).
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/core/Storage.h>

#include "cairn/tensor.h"

namespace cairn {

// The memory of a storage of libtorch, on the CPU. A tensor_of() a Storage over these bytes that
// shares them has that very storage of libtorch.
SharedBytes bytes_of(const c10::Storage& memory);

// UnsupportedError for a dtype that this libtorch lacks.
at::ScalarType scalar_type_of(DType dtype);

}  // namespace cairn
