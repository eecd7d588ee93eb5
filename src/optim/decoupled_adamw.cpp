// Step k, for a parameter w with gradient g (arXiv:1711.05101, as Composer computes it):
//
//  1. decay: w = w * (1 - weight_decay * lr / initial_lr). Not times lr: the decay of a whole run
//     does not depend on the learning rate, only on its schedule.
//  2. m = beta1 * m + (1 - beta1) * g.
//  3. adam_step().
#include "optim/decoupled_adamw.h"

#include "optim/optimizer_step.h"
#include "optim/param_state.h"

namespace cairn {

DecoupledAdamWOptimizer::DecoupledAdamWOptimizer(std::vector<at::Tensor> parameters,
                                                 const DecoupledAdamWOptions& options)
    : Optimizer(std::move(parameters), std::make_unique<DecoupledAdamWGroup>(options)) {}

at::Tensor DecoupledAdamWOptimizer::step(LossClosure closure) {
  at::Tensor loss = closure_loss(closure);
  const torch::NoGradGuard no_grad;
  for (auto& group : param_groups()) {
    const auto& options = static_cast<const DecoupledAdamWGroup&>(group.options());
    const DecoupledAdamWOptions& values = options.values;
    const double decay = decay_factor(options, values.weight_decay);
    for (const at::Tensor& parameter : group.params()) {
      const at::Tensor gradient = dense_gradient(parameter, "DecoupledAdamW");
      if (!gradient.defined()) continue;
      auto& state = param_state<DecoupledAdamWState>(*this, parameter);
      Moments moments{state.exp_avg, state.exp_avg_sq, state.max_exp_avg_sq};
      moments.prepare(parameter, values.amsgrad);
      if (decay != 1) parameter.mul_(decay);
      state.exp_avg.mul_(values.betas[0]).add_(gradient, 1 - values.betas[0]);
      adam_step(parameter, gradient, moments,
                {values.lr, values.betas, values.eps, values.amsgrad, ++state.step});
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
