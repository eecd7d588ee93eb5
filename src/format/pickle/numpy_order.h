// The two orders in which numpy keeps the elements of an array.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cairn/bytes.h"
#include "cairn/tensor.h"

namespace cairn::pickle {

// row_major() turns Fortran's order (column by column) into C's (row by row); column_major() does
// the reverse. `item_size` is a power of two up to 16.
SharedBytes row_major(const SharedBytes& fortran, const Dims& shape, std::size_t item_size);
SharedBytes column_major(const SharedBytes& c_order, const Dims& shape, std::size_t item_size);

}  // namespace cairn::pickle
