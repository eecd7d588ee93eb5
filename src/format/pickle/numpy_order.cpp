#include "format/pickle/numpy_order.h"

#include <algorithm>

#include "cairn/tensor.h"

namespace cairn::pickle {
namespace {

// Returns any dtype of that size: elements are only moved.
DType dtype_of_size(std::size_t item_size) {
  switch (item_size) {
    case 1:
      return DType::kUInt8;
    case 2:
      return DType::kInt16;
    case 4:
      return DType::kInt32;
    case 8:
      return DType::kInt64;
    default:
      return DType::kComplex128;
  }
}

}  // namespace

SharedBytes row_major(const SharedBytes& fortran, const Dims& shape, std::size_t item_size) {
  TensorView tensor = make_tensor(dtype_of_size(item_size), shape, fortran);
  std::int64_t stride = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    tensor.strides[d] = stride;
    stride *= shape[d];
  }
  return tensor.contiguous_bytes();
}

// Column-major order is the row-major order of the reversed dimensions.
SharedBytes column_major(const SharedBytes& c_order, const Dims& shape, std::size_t item_size) {
  return row_major(c_order, {shape.rbegin(), shape.rend()}, item_size);
}

}  // namespace cairn::pickle
