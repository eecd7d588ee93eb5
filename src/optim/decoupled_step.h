// What the two optimizers with decoupled weight decay share.
#pragma once

#include <torch/torch.h>

#include <string>

#include "cairn/error.h"

#include "optim/group_extras.h"

namespace cairn {

// The closure's loss, computed with gradients; undefined without a closure.
inline at::Tensor closure_loss(const torch::optim::Optimizer::LossClosure& closure) {
  if (!closure) return {};
  const torch::AutoGradMode with_gradients(true);
  return closure();
}

// What a parameter is multiplied by before its update; 1 without weight decay.
template <class Group>
double decay_factor(const Group& group, double weight_decay) {
  const double initial_lr = group.initial_lr.value_or(group.get_lr());
  return 1 - weight_decay * (initial_lr == 0 ? 1 : group.get_lr() / initial_lr);
}

// Undefined when there is none.
inline at::Tensor dense_gradient(const at::Tensor& parameter, const std::string& optimizer) {
  at::Tensor gradient = parameter.grad();
  if (gradient.defined() && gradient.is_sparse()) {
    throw UnsupportedError(optimizer + " does not support sparse gradients; use SGD or Adagrad");
  }
  return gradient;
}

[[noreturn]] inline void refuse_archive(const std::string& optimizer) {
  throw UnsupportedError("torch::save and torch::load do not know " + optimizer +
                         "; use cairn::optimizer_state_dict() and load_optimizer_state_dict()");
}

}  // namespace cairn
