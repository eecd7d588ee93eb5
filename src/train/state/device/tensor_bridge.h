// Scalar types of libtorch and of the core; view_of() and tensor_of() are public
// (cairn/train/state_dict.h).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/core/Storage.h>

#include <memory>
#include <string>

#include "cairn/tensor.h"

namespace cairn {

// The memory of a storage of libtorch, on the CPU. A tensor_of() this Storage that shares it has
// that very storage of libtorch.
std::shared_ptr<const Storage> storage_over(const c10::Storage& memory,
                                            std::string location = "cpu");

// What a storage_over() or a device_storage() is over; nullptr of others.
const c10::StorageImpl* live_memory_of(const Storage& storage);

// Lets go of what view_of() remembers, on this thread, of Storages that are gone: it keeps the
// block of a NodeArena that they were in. For who makes a tree anew; costs a look at each.
void forget_dead_storages();

// Where the elements of a tensor lie in its storage, in elements.
struct StridedPlace {
  at::IntArrayRef sizes;
  at::IntArrayRef strides;
  std::int64_t offset = 0;
};
// A tensor with `memory` for its storage, of the dtype and on the device of `options`, which is the
// memory's.
at::Tensor tensor_over(const c10::Storage& memory, const StridedPlace& place,
                       const at::TensorOptions& options);

// Whether these are the elements of that tensor: the same memory, dtype, shape and order. False of
// views that are no storage_over(), and of no elements.
bool is_over(const TensorView& view, const at::Tensor& tensor);

// Whether they would be the elements of that tensor if they stood in its memory: the same dtype,
// shape and order, without gaps.
bool is_alike(const TensorView& view, const at::Tensor& tensor);

// As tensor_of(), shared; but the elements of a fresh_device_storage() stay there.
at::Tensor near_tensor_of(const TensorView& view);

// UnsupportedError for a dtype that this libtorch lacks.
at::ScalarType scalar_type_of(DType dtype);

}  // namespace cairn
