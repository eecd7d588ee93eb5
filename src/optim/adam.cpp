// Step k, for a parameter w with gradient g (arXiv:1412.6980 and 1711.05101, as PyTorch 2's Python
// computes it):
//
//  1. decay: Adam adds weight_decay * w to g; AdamW multiplies w by 1 - lr * weight_decay.
//  2. m = lerp(m, g, 1 - beta1).
//  3. adam_step().
#include "optim/adam.h"

#include "optim/optimizer_step.h"
#include "optim/param_state.h"

namespace cairn {
namespace {

// `decay(parameter, gradient, options)` does step 1 and gives the gradient to go on with.
template <class Options, class State>
void step_all(torch::optim::Optimizer& optimizer, const char* name, const auto& decay) {
  for (auto& group : optimizer.param_groups()) {
    const auto& options = static_cast<const Options&>(group.options());
    const auto [beta1, beta2] = options.betas();
    for (const at::Tensor& parameter : group.params()) {
      at::Tensor gradient = dense_gradient(parameter, name);
      if (!gradient.defined()) continue;
      auto& state = param_state<State>(optimizer, parameter);
      Moments moments{state.exp_avg(), state.exp_avg_sq(), state.max_exp_avg_sq()};
      moments.prepare(parameter, options.amsgrad());
      if (options.weight_decay() != 0) gradient = decay(parameter, gradient, options);
      state.exp_avg().lerp_(gradient, 1 - beta1);
      state.step(state.step() + 1);
      adam_step(parameter, gradient, moments,
                {options.lr(), {beta1, beta2}, options.eps(), options.amsgrad(), state.step()});
    }
  }
}

}  // namespace

at::Tensor AdamOptimizer::step(LossClosure closure) {
  at::Tensor loss = closure_loss(closure);
  const torch::NoGradGuard no_grad;
  step_all<torch::optim::AdamOptions, torch::optim::AdamParamState>(
      *this, "Adam", [](const auto& parameter, const auto& gradient, const auto& options) {
        return gradient.add(parameter, options.weight_decay());
      });
  return loss;
}

at::Tensor AdamWOptimizer::step(LossClosure closure) {
  at::Tensor loss = closure_loss(closure);
  const torch::NoGradGuard no_grad;
  step_all<torch::optim::AdamWOptions, torch::optim::AdamWParamState>(
      *this, "AdamW", [](const auto& parameter, const auto& gradient, const auto& options) {
        parameter.mul_(1 - options.lr() * options.weight_decay());
        return gradient;
      });
  return loss;
}

}  // namespace cairn
