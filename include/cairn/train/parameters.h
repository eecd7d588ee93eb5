// A module's tensors as Python lists them: each once, under its first name, module by module.
// libtorch's own parameters() lists a tensor that is registered twice (tied weights, one module
// under two names) twice. An optimizer made from that list would step it twice.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "cairn/export.h"

namespace torch::nn {
class Module;
}

namespace CAIRN_PUBLIC cairn {

// Python's named_parameters(): all defined parameters, trainable or not.
std::vector<std::pair<std::string, at::Tensor>> named_parameters(const torch::nn::Module& module);
// Python's named_buffers().
std::vector<std::pair<std::string, at::Tensor>> named_buffers(const torch::nn::Module& module);

// Python's parameters(): what to make an optimizer from,
//   std::make_shared<torch::optim::SGD>(cairn::parameters(*net), 0.1)
std::vector<at::Tensor> parameters(const torch::nn::Module& module);

// Returns `tensors` without repetitions.
std::vector<at::Tensor> unique_tensors(std::vector<at::Tensor> tensors);
[[deprecated("use unique_tensors()")]] inline auto each_once(std::vector<at::Tensor> tensors) {
  return unique_tensors(std::move(tensors));
}

}  // namespace cairn
