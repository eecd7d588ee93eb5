// Names of an optimizer's parameters.
#pragma once

#include <torch/torch.h>

#include <string>
#include <utility>
#include <vector>

namespace cairn {

using NamedGroup = std::vector<std::pair<std::string, at::Tensor>>;

// The parameters of every group with their names in `module`, each once. A tied parameter has its
// first name. Throws UsageError for a parameter that the module does not have, or that two groups
// have.
std::vector<NamedGroup> named_groups(const torch::optim::Optimizer& optimizer,
                                     const torch::nn::Module& module);

// Leaves each parameter in its group once. libtorch's parameters() lists tied ones twice, and an
// optimizer made from that list would step them twice. Throws as named_groups().
void drop_repeated_parameters(torch::optim::Optimizer& optimizer, const torch::nn::Module& module);

}  // namespace cairn
