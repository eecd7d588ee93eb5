#include "cairn/optim/own_optimizer.h"

#include <torch/torch.h>

#include "cairn/error.h"

#include "train/optimizer/param_state.h"

namespace cairn {

at::Tensor closure_loss(const torch::optim::Optimizer::LossClosure& closure) {
  if (!closure) return {};
  const torch::AutoGradMode with_gradients(true);
  return closure();
}

at::Tensor gradient_of(const at::Tensor& parameter, const OptimizerLayout& layout,
                       const GradientOptions& options) {
  const at::Tensor& gradient = parameter.grad();
  if (!gradient.defined()) return {};
  if (gradient.is_sparse() && !options.takes_sparse) {
    throw UnsupportedError(layout.python_name() +
                           " does not support sparse gradients; use SparseAdam, SGD or Adagrad");
  }
  return options.maximize ? gradient.neg() : gradient;
}

std::unique_ptr<torch::optim::OptimizerParamState>& state_slot(torch::optim::Optimizer& optimizer,
                                                               const at::Tensor& parameter) {
  return optimizer.state()[param_state_key<ParamStateKey>(parameter)];
}

void refuse_archive(const OptimizerLayout& layout) {
  throw UnsupportedError("torch::save and torch::load do not know " + layout.python_name() +
                         "; use cairn::optimizer_state_dict() and load_optimizer_state_dict()");
}

}  // namespace cairn
