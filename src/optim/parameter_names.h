// Names of an optimizer's parameters.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

namespace cairn {

// Name in `module` of every parameter of every group. A tied parameter has its first name.
// UsageError for a parameter that is not the module's.
std::vector<std::vector<std::string>> parameter_names(const torch::optim::Optimizer& optimizer,
                                                      const torch::nn::Module& module);

}  // namespace cairn
