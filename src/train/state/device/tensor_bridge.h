// Scalar types of libtorch and of the core. view_of() and tensor_of() are public
// (cairn/train/state_dict.h).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/core/Storage.h>

#include <memory>
#include <string>

#include "cairn/tensor.h"

namespace cairn {

// The memory of a storage of libtorch, on the CPU. If tensor_of() shares this Storage, the tensor
// has that same storage of libtorch.
std::shared_ptr<const Storage> storage_over(const c10::Storage& memory,
                                            std::string location = "cpu");

// The memory of a storage_over() or a device_storage(); nullptr for other storages.
const c10::StorageImpl* live_memory_of(const Storage& storage);

// view_of() remembers Storages on this thread. Forgets those that no longer exist, since each keeps
// a block of a NodeArena in memory. For callers that rebuild a tree. Looks at each remembered
// Storage.
void forget_dead_storages();

// The position of a tensor's elements in its storage, in elements.
struct StridedPlace {
  at::IntArrayRef sizes;
  at::IntArrayRef strides;
  std::int64_t offset = 0;
};
// A tensor with `memory` as its storage, of the dtype and device of `options`. The device must be
// the memory's.
at::Tensor tensor_over(const c10::Storage& memory, const StridedPlace& place,
                       const at::TensorOptions& options);

// Whether the view has the elements of that tensor: the same memory, dtype, shape and order. False
// for views that are not from storage_over(), and for views without elements.
bool is_over(const TensorView& view, const at::Tensor& tensor);

// Whether the view matches that tensor except in memory: the same dtype, shape and order, without
// gaps.
bool is_alike(const TensorView& view, const at::Tensor& tensor);

// As tensor_of() with sharing, but elements of a fresh_device_storage() stay on the device.
at::Tensor near_tensor_of(const TensorView& view);

// Throws UnsupportedError for a dtype that this libtorch lacks.
at::ScalarType scalar_type_of(DType dtype);

}  // namespace cairn
