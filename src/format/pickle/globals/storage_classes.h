// PyTorch's names for the element types of storages: "torch.FloatStorage".
#pragma once

#include <optional>
#include <string_view>

#include "cairn/tensor.h"

namespace cairn::pickle {

// Returns "FloatStorage" and the like; empty for a dtype without a class, which _rebuild_tensor_v3
// names itself.
std::string_view storage_class(DType dtype);

// Does the inverse of storage_class(); nullopt for an unknown name.
std::optional<DType> find_storage_class(std::string_view name);

// Returns the dtype in which PyTorch counts the storage of tensors of `dtype`: bytes if there is no
// class for `dtype`. Tensors of several dtypes may share a storage if this function returns the
// same for all of them.
DType storage_dtype(DType dtype);

}  // namespace cairn::pickle
