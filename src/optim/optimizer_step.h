// What the steps of cairn's own optimizers share.
#pragma once

#include <torch/torch.h>

#include <array>
#include <cmath>
#include <cstdint>
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

// The moments of Adam and its kin. Made on the first gradient; the largest second moment when
// amsgrad is on, which may be later.
struct Moments {
  at::Tensor& exp_avg;
  at::Tensor& exp_avg_sq;
  at::Tensor& max_exp_avg_sq;

  void prepare(const at::Tensor& parameter, bool amsgrad) {
    for (at::Tensor* moment : {&exp_avg, &exp_avg_sq, amsgrad ? &max_exp_avg_sq : nullptr}) {
      if (moment != nullptr && !moment->defined()) {
        *moment = at::zeros_like(parameter, at::MemoryFormat::Preserve);
      }
    }
  }
};

struct AdamStep {
  double lr;
  std::array<double, 2> betas;
  double eps;
  bool amsgrad;
  std::int64_t step;  // counted from 1
};

// From the first moment m, already updated, and the gradient g:
//  v = beta2 * v + (1 - beta2) * g^2
//  w = w - lr / (1 - beta1^k) * m / (sqrt(v) / sqrt(1 - beta2^k) + eps), where with amsgrad v is
//  the largest so far.
inline void adam_step(const at::Tensor& parameter, const at::Tensor& gradient,
                      const Moments& moments, const AdamStep& step) {
  const auto [beta1, beta2] = step.betas;
  const double correction1 = 1 - std::pow(beta1, static_cast<double>(step.step));
  const double correction2 = 1 - std::pow(beta2, static_cast<double>(step.step));
  moments.exp_avg_sq.mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
  if (step.amsgrad) {
    at::maximum_out(moments.max_exp_avg_sq, moments.max_exp_avg_sq, moments.exp_avg_sq);
  }
  const at::Tensor& second = step.amsgrad ? moments.max_exp_avg_sq : moments.exp_avg_sq;
  const at::Tensor denominator = second.sqrt().div_(std::sqrt(correction2)).add_(step.eps);
  parameter.addcdiv_(moments.exp_avg, denominator, -step.lr / correction1);
}

[[noreturn]] inline void refuse_archive(const std::string& optimizer) {
  throw UnsupportedError("torch::save and torch::load do not know " + optimizer +
                         "; use cairn::optimizer_state_dict() and load_optimizer_state_dict()");
}

}  // namespace cairn
