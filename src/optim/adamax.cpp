// Adamax. Step k, for a parameter w with gradient g (arXiv:1412.6980, section 7, as PyTorch 2's
// Python computes it). weight_decay * w was added to g:
//
//  1. m = lerp(m, g, 1 - beta1).
//  2. u = max(beta2 * u, |g| + eps).
//  3. w = w - lr / (1 - beta1^k) * m / u.
#include <torch/torch.h>

#include "cairn/optim/optimizers.h"
#include "cairn/optim/own_optimizer.h"

#include "optim/optimizer_step.h"
#include "optim/option_checks.h"
#include "optim/shared_keys.h"

namespace cairn {

void AdamaxOptions::describe(GroupFields& group) {
  group.number("lr", lr);
  group.pair("betas", betas);
  group.number("eps", eps);
  group.number("weight_decay", weight_decay, 0);
  describe_newer_keys(group, maximize);
}

namespace {

struct AdamaxState {
  std::int64_t step = 0;
  at::Tensor exp_avg = {};
  at::Tensor exp_inf = {};

  void describe(StateFields& state, const AdamaxOptions& /*options*/) {
    state.step("step", step);
    state.tensor("exp_avg", exp_avg);
    state.tensor("exp_inf", exp_inf);
  }
};

class AdamaxOptimizer final : public OptimizerOf<AdamaxOptions, AdamaxState> {
 public:
  using OptimizerOf::OptimizerOf;
  std::string python_name() const override { return "Adamax"; }

 private:
  void update(const Update& u) override {
    const Options& o = u.options;
    State& s = u.state;
    prepare(u.parameter, {&s.exp_avg, &s.exp_inf});
    const at::Tensor gradient = real_view(with_decay(u.gradient, u.parameter, o.weight_decay));
    const at::Tensor exp_avg = real_view(s.exp_avg);
    at::Tensor exp_inf = real_view(s.exp_inf);
    ++s.step;
    exp_avg.lerp_(gradient, 1 - o.betas[0]);
    at::maximum_out(exp_inf, exp_inf.mul_(o.betas[1]), gradient.abs().add_(o.eps));
    const double correction = 1 - power(o.betas[0], s.step);
    real_view(u.parameter).addcdiv_(exp_avg, exp_inf, -o.lr / correction);
  }
};

}  // namespace

std::shared_ptr<torch::optim::Optimizer> Adamax::create(std::vector<at::Tensor> parameters) const {
  OptionChecks("Adamax").adam(options_);
  return RecipeOf<AdamaxOptimizer>(options_).create(std::move(parameters));
}

}  // namespace cairn
