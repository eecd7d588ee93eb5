// Step k, for a parameter w with gradient g (arXiv:1711.05101, as Composer computes it):
//
//  1. decay: w = w * (1 - weight_decay * lr / initial_lr). Not times lr: the decay of a whole run
//     does not depend on the learning rate, only on its schedule.
//  2. m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g^2.
//  3. w = w - lr / (1 - beta1^k) * m / (sqrt(v) / sqrt(1 - beta2^k) + eps), where v is the largest
//     so far with amsgrad.
#include "optim/decoupled_adamw.h"

#include <cmath>

#include "optim/decoupled_step.h"
#include "optim/param_state.h"

namespace cairn {
namespace {

// Makes the moments on the first gradient, and the largest second moment when amsgrad was
// switched on since.
void prepare(DecoupledAdamWState& state, const at::Tensor& parameter, bool amsgrad) {
  if (!state.exp_avg.defined()) {
    state.exp_avg = at::zeros_like(parameter, at::MemoryFormat::Preserve);
    state.exp_avg_sq = at::zeros_like(parameter, at::MemoryFormat::Preserve);
  }
  if (amsgrad && !state.max_exp_avg_sq.defined()) {
    state.max_exp_avg_sq = at::zeros_like(parameter, at::MemoryFormat::Preserve);
  }
}

void update(DecoupledAdamWState& state, const at::Tensor& parameter, const at::Tensor& gradient,
            const DecoupledAdamWOptions& options) {
  const auto [beta1, beta2] = options.betas;
  ++state.step;
  const double correction1 = 1 - std::pow(beta1, static_cast<double>(state.step));
  const double correction2 = 1 - std::pow(beta2, static_cast<double>(state.step));
  state.exp_avg.mul_(beta1).add_(gradient, 1 - beta1);
  state.exp_avg_sq.mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
  if (options.amsgrad) {
    at::maximum_out(state.max_exp_avg_sq, state.max_exp_avg_sq, state.exp_avg_sq);
  }
  const at::Tensor& second_moment = options.amsgrad ? state.max_exp_avg_sq : state.exp_avg_sq;
  const at::Tensor denominator =
      second_moment.sqrt().div_(std::sqrt(correction2)).add_(options.eps);
  parameter.addcdiv_(state.exp_avg, denominator, -options.lr / correction1);
}

}  // namespace

DecoupledAdamWOptimizer::DecoupledAdamWOptimizer(std::vector<at::Tensor> parameters,
                                                 const DecoupledAdamWOptions& options)
    : Optimizer(std::move(parameters), std::make_unique<DecoupledAdamWGroup>(options)) {}

at::Tensor DecoupledAdamWOptimizer::step(LossClosure closure) {
  const at::Tensor loss = closure_loss(closure);
  const torch::NoGradGuard no_grad;
  for (auto& group : param_groups()) {
    const auto& options = static_cast<const DecoupledAdamWGroup&>(group.options());
    const double decay = decay_factor(options, options.values.weight_decay);
    for (const at::Tensor& parameter : group.params()) {
      const at::Tensor gradient = dense_gradient(parameter, "DecoupledAdamW");
      if (!gradient.defined()) continue;
      auto& state = param_state<DecoupledAdamWState>(*this, parameter);
      prepare(state, parameter, options.values.amsgrad);
      if (decay != 1) parameter.mul_(decay);
      update(state, parameter, gradient, options.values);
    }
  }
  return loss;
}

void DecoupledAdamWOptimizer::save(torch::serialize::OutputArchive& /*archive*/) const {
  refuse_archive("DecoupledAdamW");
}

void DecoupledAdamWOptimizer::load(torch::serialize::InputArchive& /*archive*/) {
  refuse_archive("DecoupledAdamW");
}

}  // namespace cairn
