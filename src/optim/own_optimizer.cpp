#include "cairn/optim/own_optimizer.h"

#include <torch/torch.h>

#include <typeinfo>

#include "cairn/error.h"

#include "core/text/class_name.h"
#include "train/optimizer/param_state.h"
#include "train/optimizer/state_format.h"

namespace cairn {
namespace {

std::string name_of(const torch::optim::Optimizer& optimizer) {
  const OptimizerLayout* const layout = find_layout(optimizer);
  return layout == nullptr ? class_name(typeid(optimizer)) : layout->python_name();
}

}  // namespace

at::Tensor closure_loss(const torch::optim::Optimizer::LossClosure& closure) {
  if (!closure) return {};
  const torch::AutoGradMode with_gradients(true);
  return closure();
}

at::Tensor gradient_of(const at::Tensor& parameter, const torch::optim::Optimizer& optimizer,
                       const GradientOptions& options) {
  const at::Tensor& gradient = parameter.grad();
  if (!gradient.defined()) return {};
  if (gradient.is_sparse() && !options.takes_sparse) {
    throw UnsupportedError(name_of(optimizer) +
                           " does not support sparse gradients; use SparseAdam, SGD or Adagrad");
  }
  return options.maximize ? gradient.neg() : gradient;
}

std::unique_ptr<torch::optim::OptimizerParamState>& state_slot(torch::optim::Optimizer& optimizer,
                                                               const at::Tensor& parameter) {
  return optimizer.state()[param_state_key<ParamStateKey>(parameter)];
}

double initial_lr_of(const torch::optim::OptimizerOptions& options) {
  const GroupExtras* const extras = find_extras(options);
  return extras != nullptr && extras->initial_lr ? *extras->initial_lr : options.get_lr();
}

void refuse_options(const torch::optim::Optimizer& optimizer,
                    const torch::optim::OptimizerOptions& options) {
  throw UsageError(name_of(optimizer) + ": a parameter group has options of the class " +
                   class_name(typeid(options)) +
                   ", which its step does not take; add groups with options of the optimizer's own "
                   "class, or none");
}

void refuse_archive(const OptimizerLayout& layout) {
  throw UnsupportedError("torch::save and torch::load do not know " + layout.python_name() +
                         "; use cairn::optimizer_state_dict() and load_optimizer_state_dict()");
}

}  // namespace cairn
