#include "loggers/logged_number.h"

#include <torch/torch.h>

#include "cairn/train/state_dict.h"

namespace cairn {

std::optional<double> logged_number(const Value& value) {
  switch (value.kind()) {
    case Kind::kBool:
      return value.as_bool() ? 1 : 0;
    case Kind::kInt:
    case Kind::kFloat:
      return value.as_float();
    case Kind::kNumpyScalar:
      return logged_number(value.get_if<NumpyScalar>()->number());
    case Kind::kTensor: {
      if (value.as_tensor().numel() != 1) return std::nullopt;
      const at::Tensor tensor = tensor_of(value.as_tensor());
      if (tensor.is_complex()) return std::nullopt;
      return tensor.item().toDouble();
    }
    default:
      return std::nullopt;
  }
}

}  // namespace cairn
