// The device of a model.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "cairn/train/parameters.h"
#include "cairn/train/state.h"

namespace cairn {

// The device of its first parameter. A model without parameters is on the CPU.
inline at::Device model_device(const State& state) {
  const std::vector<at::Tensor> parameters = cairn::parameters(state.model->module());
  return parameters.empty() ? at::Device(at::kCPU) : parameters.front().device();
}

}  // namespace cairn
