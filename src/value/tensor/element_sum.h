// Addition of tensor elements as PyTorch does it.
#pragma once

#include <span>

#include "cairn/tensor.h"

namespace cairn {

// Whether PyTorch adds tensors of that type.
bool has_sum(DType dtype);

// sum[i] += terms[i] for little-endian elements: integers wrap around, bool is "or", the 16-bit
// floats are rounded after every addition. UnsupportedError for a type that has no sum.
void add_elements(DType dtype, ByteView terms, std::span<std::byte> sum);

}  // namespace cairn
