// The dtypes of safetensors files.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "cairn/tensor.h"

namespace cairn::safetensors {

struct DTypeRow {
  std::string_view name;
  std::uint64_t bits;  // of one number in the file's shape
  // PyTorch's dtype; nullopt if it has none. PyTorch's packed type of two 4-bit numbers counts
  // pairs along the last dimension, which is twice as long in the file.
  std::optional<DType> dtype;
};

// Returns nullptr for a name that the format does not know.
const DTypeRow* find_row(std::string_view name);
// Returns nullptr for a dtype that the format cannot hold.
const DTypeRow* find_row(DType dtype);
// Returns the rank of a dtype in the order in which the reference writes tensors: the largest
// elements first, so that all are aligned.
int write_order(const DTypeRow& row);

}  // namespace cairn::safetensors
