// Numbers as Python's state dicts hold them.
#pragma once

#include <torch/torch.h>

#include <optional>

#include "cairn/train/state_dict.h"
#include "cairn/value.h"

namespace cairn {

// An int, a float, or a tensor of one element; nullopt for anything else.
inline std::optional<double> find_number(const Value& value) {
  if (value.kind() == Kind::kInt || value.kind() == Kind::kFloat) return value.as_float();
  if (!value.is_tensor() || value.as_tensor().numel() != 1) return std::nullopt;
  const at::Tensor tensor = tensor_of(value.as_tensor());
  if (tensor.is_complex()) return std::nullopt;
  return tensor.to(at::kDouble).item<double>();
}

}  // namespace cairn
