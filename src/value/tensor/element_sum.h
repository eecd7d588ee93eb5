// Adds tensor elements as PyTorch does.
#pragma once

#include <span>

#include "cairn/tensor.h"

namespace cairn {

// Returns whether PyTorch can add tensors of this dtype.
bool has_sum(DType dtype);

// Computes sum[i] += terms[i] for little-endian elements. Integers wrap around, bool is "or", and
// 16-bit floats are rounded after every addition. Throws UnsupportedError for a dtype that cannot
// be added.
void add_elements(DType dtype, ByteView terms, std::span<std::byte> sum);

}  // namespace cairn
