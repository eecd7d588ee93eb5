// One step, for a parameter w with gradient g (arXiv:1711.05101, as Composer computes it):
//
//  1. momentum: buf = g the first time, then buf = momentum * buf + (1 - dampening) * g;
//     d = g + momentum * buf with nesterov, buf without; d = g without momentum.
//  2. decay: w = w * (1 - weight_decay * lr / initial_lr). Not times lr: the decay of a whole run
//     does not depend on the learning rate, only on its schedule.
//  3. w = w - lr * d.
#include "optim/decoupled_sgdw.h"

#include "cairn/error.h"

#include "optim/optimizer_step.h"
#include "optim/param_state.h"

namespace cairn {
namespace {

// The direction d.
at::Tensor direction(DecoupledSGDWState& state, const at::Tensor& gradient,
                     const DecoupledSGDWOptions& options) {
  if (options.momentum == 0) return gradient;
  at::Tensor& buffer = state.momentum_buffer;
  if (buffer.defined()) {
    buffer.mul_(options.momentum).add_(gradient, 1 - options.dampening);
  } else {
    buffer = gradient.clone();
  }
  return options.nesterov ? gradient.add(buffer, options.momentum) : buffer;
}

}  // namespace

DecoupledSGDWOptimizer::DecoupledSGDWOptimizer(std::vector<at::Tensor> parameters,
                                               const DecoupledSGDWOptions& options)
    : Optimizer(std::move(parameters), std::make_unique<DecoupledSGDWGroup>(options)) {}

at::Tensor DecoupledSGDWOptimizer::step(LossClosure closure) {
  at::Tensor loss = closure_loss(closure);
  const torch::NoGradGuard no_grad;
  for (auto& group : param_groups()) {
    const auto& options = static_cast<const DecoupledSGDWGroup&>(group.options());
    const double decay = decay_factor(options, options.values.weight_decay);
    for (const at::Tensor& parameter : group.params()) {
      const at::Tensor gradient = dense_gradient(parameter, "DecoupledSGDW");
      if (!gradient.defined()) continue;
      auto& state = param_state<DecoupledSGDWState>(*this, parameter);
      const at::Tensor d = direction(state, gradient, options.values);
      if (decay != 1) parameter.mul_(decay);
      parameter.add_(d, -options.values.lr);
    }
  }
  return loss;
}

void DecoupledSGDWOptimizer::save(torch::serialize::OutputArchive& /*archive*/) const {
  refuse_archive("DecoupledSGDW");
}

void DecoupledSGDWOptimizer::load(torch::serialize::InputArchive& /*archive*/) {
  refuse_archive("DecoupledSGDW");
}

}  // namespace cairn
