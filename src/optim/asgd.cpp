// ASGD, averaged SGD. Step k, for a parameter w with gradient g (Polyak and Juditsky 1992, as
// PyTorch's Python computes it). weight_decay * w was added to g:
//
//  1. w = w * (1 - lambd * eta) - eta * g.
//  2. the average: ax = w while mu is 1, then ax = ax + mu * (w - ax).
//  3. eta = lr / (1 + lambd * lr * k)^alpha;  mu = 1 / max(1, k - t0); both in float32.
#include <torch/torch.h>

#include "cairn/optim/optimizers.h"
#include "cairn/optim/own_optimizer.h"

#include "optim/optimizer_step.h"
#include "optim/option_checks.h"
#include "optim/shared_keys.h"

namespace cairn {

void ASGDOptions::describe(GroupFields& group) {
  group.number("lr", lr);
  group.number("lambd", lambd);
  group.number("alpha", alpha);
  group.number("t0", t0);
  group.number("weight_decay", weight_decay, 0);
  describe_newer_keys(group, maximize);
}

namespace {

struct ASGDState {
  std::int64_t step = 0;
  at::Tensor eta = {};
  at::Tensor mu = torch::scalar_tensor(1.0);
  at::Tensor ax = {};

  void describe(StateFields& state, const ASGDOptions& /*options*/) {
    state.step("step", step);
    state.scalar("eta", eta);
    state.scalar("mu", mu);
    state.tensor("ax", ax);
  }
};

class ASGDOptimizer final : public OptimizerOf<ASGDOptions, ASGDState> {
 public:
  using OptimizerOf::OptimizerOf;
  std::string python_name() const override { return "ASGD"; }

 private:
  void update(const Update& u) override {
    const Options& o = u.options;
    State& s = u.state;
    prepare(u.parameter, {&s.ax});
    if (!s.eta.defined()) s.eta = torch::scalar_tensor(o.lr);
    const at::Tensor parameter = real_view(u.parameter);
    const at::Tensor gradient = with_decay(real_view(u.gradient), parameter, o.weight_decay);
    const at::Tensor ax = real_view(s.ax);
    const double eta = s.eta.item<double>();
    parameter.mul_(1 - o.lambd * eta).add_(gradient, -eta);
    if (s.mu.item<double>() == 1) {
      ax.copy_(parameter);
    } else {
      ax.add_(parameter.sub(ax).mul_(s.mu.item<double>()));
    }
    const auto step = static_cast<double>(++s.step);
    s.eta.fill_(o.lr / std::pow(1 + o.lambd * o.lr * step, o.alpha));
    s.mu.fill_(1 / std::max(1.0, step - o.t0));
  }
};

}  // namespace

std::shared_ptr<torch::optim::Optimizer> ASGD::create(std::vector<at::Tensor> parameters) const {
  const OptionChecks check("ASGD");
  check.not_negative("lr", options_.lr);
  check.not_negative("weight_decay", options_.weight_decay);
  return RecipeOf<ASGDOptimizer>(options_).create(std::move(parameters));
}

}  // namespace cairn
