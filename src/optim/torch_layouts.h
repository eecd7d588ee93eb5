// The layouts of libtorch's own classes: a function each, nullptr for an optimizer of another
// class.
#pragma once

#include <torch/torch.h>

#include "cairn/optim/layout.h"

namespace cairn {

const OptimizerLayout* sgd_layout(const torch::optim::Optimizer& optimizer);
const OptimizerLayout* adam_layout(const torch::optim::Optimizer& optimizer);
const OptimizerLayout* adamw_layout(const torch::optim::Optimizer& optimizer);
const OptimizerLayout* rmsprop_layout(const torch::optim::Optimizer& optimizer);
const OptimizerLayout* adagrad_layout(const torch::optim::Optimizer& optimizer);
const OptimizerLayout* lbfgs_layout(const torch::optim::Optimizer& optimizer);

template <class Optimizer, class Layout>
const OptimizerLayout* layout_if(const torch::optim::Optimizer& optimizer) {
  static const Layout layout;
  return dynamic_cast<const Optimizer*>(&optimizer) != nullptr ? &layout : nullptr;
}

}  // namespace cairn
