// Adadelta. One step, for a parameter w with gradient g (arXiv:1212.5701, as PyTorch's Python
// computes it). weight_decay * w was added to g:
//
//  1. v = rho * v + (1 - rho) * g^2.
//  2. delta = sqrt(u + eps) / sqrt(v + eps) * g.
//  3. u = rho * u + (1 - rho) * delta^2.
//  4. w = w - lr * delta.
#include <torch/torch.h>

#include "cairn/optim/optimizers.h"
#include "cairn/optim/own_optimizer.h"

#include "optim/optimizer_step.h"
#include "optim/option_checks.h"

namespace cairn {

void AdadeltaOptions::describe(GroupFields& group) {
  group.number("lr", lr);
  group.number("rho", rho);
  group.number("eps", eps);
  group.number("weight_decay", weight_decay, 0);
  group.newer_flag("maximize", maximize);
  group.python_only("capturable", false);
  group.python_only("foreach", None{});
  group.python_only("differentiable", false);
}

namespace {

struct AdadeltaState {
  std::int64_t step = 0;
  at::Tensor square_avg = {};
  at::Tensor acc_delta = {};

  void describe(StateFields& state, const AdadeltaOptions& /*options*/) {
    state.step("step", step);
    state.tensor("square_avg", square_avg);
    state.tensor("acc_delta", acc_delta);
  }
};

class AdadeltaOptimizer final : public OptimizerOf<AdadeltaOptions, AdadeltaState> {
 public:
  using OptimizerOf::OptimizerOf;
  std::string python_name() const override { return "Adadelta"; }

 private:
  void update(const Update& u) override {
    const Options& o = u.options;
    State& s = u.state;
    prepare(u.parameter, {&s.square_avg, &s.acc_delta});
    const at::Tensor gradient = real_view(with_decay(u.gradient, u.parameter, o.weight_decay));
    const at::Tensor square_avg = real_view(s.square_avg);
    const at::Tensor acc_delta = real_view(s.acc_delta);
    ++s.step;
    square_avg.mul_(o.rho).addcmul_(gradient, gradient, 1 - o.rho);
    const at::Tensor std = square_avg.add(o.eps).sqrt_();
    const at::Tensor delta = acc_delta.add(o.eps).sqrt_().div_(std).mul_(gradient);
    acc_delta.mul_(o.rho).addcmul_(delta, delta, 1 - o.rho);
    real_view(u.parameter).add_(delta, -o.lr);
  }
};

}  // namespace

std::shared_ptr<torch::optim::Optimizer> Adadelta::create(
    std::vector<at::Tensor> parameters) const {
  const OptionChecks check("Adadelta");
  check.not_negative("lr", options_.lr);
  check.between("rho", options_.rho, {0, 1});
  check.not_negative("eps", options_.eps);
  check.not_negative("weight_decay", options_.weight_decay);
  return RecipeOf<AdadeltaOptimizer>(options_).create(std::move(parameters));
}

}  // namespace cairn
