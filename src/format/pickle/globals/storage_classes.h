// The classes by which PyTorch names what a storage holds: "torch.FloatStorage".
#pragma once

#include <optional>
#include <string_view>

#include "cairn/tensor.h"

namespace cairn::pickle {

// "FloatStorage"; empty for a dtype without a class, which _rebuild_tensor_v3 names itself.
std::string_view storage_class(DType dtype);

// The inverse.
std::optional<DType> find_storage_class(std::string_view name);

// As what PyTorch counts the storage of such tensors: bytes where it has no class. Tensors of
// several dtypes may share a storage if they agree in this.
DType storage_dtype(DType dtype);

}  // namespace cairn::pickle
