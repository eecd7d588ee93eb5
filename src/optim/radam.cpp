// RAdam. Step k, for a parameter w with gradient g (arXiv:1908.03265, as PyTorch 2's Python
// computes it):
//
//  1. decay: weight_decay * w is added to g; with decoupled_weight_decay w is multiplied by
//     1 - lr * weight_decay instead.
//  2. m = lerp(m, g, 1 - beta1);  v = beta2 * v + (1 - beta2) * g^2;  n = m / (1 - beta1^k).
//  3. rho_inf = 2 / (1 - beta2) - 1;  rho = rho_inf - 2 * k * beta2^k / (1 - beta2^k).
//  4. rho > 5: w = w - lr * n * r * sqrt(1 - beta2^k) / (sqrt(v) + eps), where
//       r = sqrt((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho));
//     otherwise w = w - lr * n.
#include <torch/torch.h>

#include "cairn/optim/optimizers.h"
#include "cairn/optim/own_optimizer.h"

#include "optim/optimizer_step.h"
#include "optim/option_checks.h"

namespace cairn {

void RAdamOptions::describe(GroupFields& group) {
  group.number("lr", lr);
  group.pair("betas", betas);
  group.number("eps", eps);
  group.number("weight_decay", weight_decay, 0);
  group.newer_flag("maximize", maximize);
  group.python_only("foreach", None{});
  group.python_only("capturable", false);
  group.newer_flag("decoupled_weight_decay", decoupled_weight_decay);
  group.python_only("differentiable", false);
}

namespace {

struct RAdamState {
  std::int64_t step = 0;
  at::Tensor exp_avg = {};
  at::Tensor exp_avg_sq = {};

  void describe(StateFields& state, const RAdamOptions& /*options*/) {
    state.step("step", step);
    state.tensor("exp_avg", exp_avg);
    state.tensor("exp_avg_sq", exp_avg_sq);
  }
};

class RAdamOptimizer final : public FusableOptimizerOf<RAdamOptions, RAdamState> {
 public:
  using FusableOptimizerOf::FusableOptimizerOf;
  std::string python_name() const override { return "RAdam"; }

 private:
  void update(const Update& u) override {
    const Options& o = u.options;
    const auto [beta1, beta2] = o.betas;
    const DecayedMoments d(u);
    const std::int64_t step = u.state.step;
    at::Tensor change = (d.exp_avg / (1 - power(beta1, step))).mul_(o.lr);
    if (const double rectified = rectification(beta2, step)) {
      change.mul_(std::sqrt(1 - power(beta2, step)) / d.exp_avg_sq.sqrt().add_(o.eps));
      change.mul_(rectified);
    }
    d.parameter.sub_(change);
  }

  // r in formula 4; 0 while rho is at most 5.
  static double rectification(double beta2, std::int64_t step) {
    const double rho_inf = 2 / (1 - beta2) - 1;
    const double rho =
        rho_inf - 2 * static_cast<double>(step) * power(beta2, step) / (1 - power(beta2, step));
    if (!(rho > 5)) return 0;
    return std::sqrt((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho));
  }

  void update_together(const std::vector<Update>& updates) override {
    const auto step_of = [](const Update& u) {
      const Options& o = u.options;
      const std::int64_t k = u.state.step;
      const double rectified = rectification(o.betas[1], k);
      return fused::Radam{.flags = rectified != 0 ? fused::Radam::kRectified : 0U,
                          .beta1 = o.betas[0],
                          .beta2 = o.betas[1],
                          .correction = 1 - power(o.betas[0], k),
                          .root = std::sqrt(1 - power(o.betas[1], k)),
                          .eps = o.eps,
                          .rectification = rectified,
                          .lr = o.lr};
    };
    step_group(updates, step_of, [this](const Update& u) { update(u); });
  }
};

}  // namespace

std::shared_ptr<torch::optim::Optimizer> RAdam::create(std::vector<at::Tensor> parameters) const {
  OptionChecks("RAdam").adam(options_);
  return RecipeOf<RAdamOptimizer>(options_).create(std::move(parameters));
}

}  // namespace cairn
