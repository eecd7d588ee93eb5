// The dtypes of safetensors files.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "cairn/tensor.h"

namespace cairn::safetensors {

struct DTypeRow {
  std::string_view name;
  std::uint64_t bits;  // of one number of the file's shape
  // PyTorch's. The packed type of two 4-bit numbers stands for pairs of them along the last
  // dimension, which is twice as long in the file. nullopt: PyTorch has none.
  std::optional<DType> dtype;
};

// nullptr for a name that the format does not know.
const DTypeRow* find_row(std::string_view name);
// nullptr for a dtype that the format cannot hold.
const DTypeRow* find_row(DType dtype);
// Place of a row's tensors among those of other rows in what the reference writes: the largest
// elements first, so that all are aligned.
int write_order(const DTypeRow& row);

}  // namespace cairn::safetensors
