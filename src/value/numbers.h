// The elements of any dtype as doubles: for statistics and comparisons.
#pragma once

#include <cstddef>
#include <vector>

#include "cairn/bytes.h"
#include "cairn/tensor.h"

namespace cairn {

// Numbers in one element: 2 for complex (real, imaginary), what is packed into a byte for sub-byte
// dtypes, 1 otherwise.
std::size_t numbers_per_element(DType dtype);

// The numbers of whole elements, in order; of a byte with several, lowest bits first. Exact but for
// integers beyond 2^53, which are rounded. Quantized dtypes give the stored integers, bits dtypes
// are read as unsigned integers.
void decode_numbers(DType dtype, ByteView elements, std::vector<double>& numbers);

}  // namespace cairn
