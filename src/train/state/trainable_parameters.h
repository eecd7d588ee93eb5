// The parameters of a model that are trained.
#pragma once

#include <torch/torch.h>

#include <string>
#include <utility>
#include <vector>

#include "cairn/train/parameters.h"
#include "cairn/train/state.h"

namespace cairn {

using TensorsByName = std::vector<std::pair<std::string, at::Tensor>>;

// Those that are not frozen now, each once, with their names, in the order of named_parameters().
inline TensorsByName trainable_parameters(const State& state) {
  TensorsByName parameters = named_parameters(state.model->module());
  std::erase_if(parameters, [](const auto& each) { return !each.second.requires_grad(); });
  return parameters;
}

}  // namespace cairn
