// The elements of any dtype as doubles, for statistics and comparisons.
#pragma once

#include <cstddef>
#include <vector>

#include "cairn/bytes.h"
#include "cairn/tensor.h"

namespace cairn {

// How many numbers an element has: 2 for complex dtypes (real, imaginary), the packed numbers of a
// byte for sub-byte dtypes, 1 otherwise.
std::size_t numbers_per_element(DType dtype);

// Sets `numbers` to the numbers of whole elements, in order. If a byte holds several numbers, the
// lowest bits come first. Exact, except for integers beyond 2^53, which are rounded. Quantized
// dtypes give the stored integers. Bits dtypes are read as unsigned integers.
void decode_numbers(DType dtype, ByteView elements, std::vector<double>& numbers);

}  // namespace cairn
