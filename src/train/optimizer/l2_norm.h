// L2 norms of gradients, weights and moments.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace cairn {

// A tensor without dimensions on the tensor's device, rounded as PyTorch 2 rounds it on x86.
// Nothing waits for the device.
at::Tensor l2_norm(const at::Tensor& tensor);

// As l2_norm(), for each of several tensors, in few operators. All norms are on the device of the
// first.
std::vector<at::Tensor> l2_norms(const std::vector<at::Tensor>& tensors);

// Whether all tensors are on one device that has kernels for lists of tensors. (Those of libtorch
// 1.13 miss the previous tensors when the last one is empty.)
bool are_a_list(const std::vector<at::Tensor>& tensors);

}  // namespace cairn
