// Scalar types of libtorch and of the core; view_of() and tensor_of() are public
// (cairn/train/state_dict.h).
#pragma once

#include <c10/core/ScalarType.h>

#include "cairn/tensor.h"

namespace cairn {

// UnsupportedError for a dtype that this libtorch lacks.
at::ScalarType scalar_type_of(DType dtype);

}  // namespace cairn
