// Names of an optimizer's parameters.
#pragma once

#include <torch/torch.h>

#include <string>
#include <utility>
#include <vector>

namespace cairn {

using NamedGroup = std::vector<std::pair<std::string, at::Tensor>>;

// The parameters of every group with their names in `module`, each once: what is tied has its first
// name. UsageError for a parameter that is not the module's, or that two groups have.
std::vector<NamedGroup> named_groups(const torch::optim::Optimizer& optimizer,
                                     const torch::nn::Module& module);

// Leaves each parameter in its group once. An optimizer that was made from libtorch's parameters(),
// which lists tied ones twice, would step them twice. Throws as named_groups().
void drop_repeated_parameters(torch::optim::Optimizer& optimizer, const torch::nn::Module& module);

}  // namespace cairn
