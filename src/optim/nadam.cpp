// NAdam. Step k, for a parameter w with gradient g (Dozat 2016, as PyTorch 2's Python computes it):
//
//  1. decay: weight_decay * w is added to g; with decoupled_weight_decay w is multiplied by
//     1 - lr * weight_decay instead.
//  2. mu_k = beta1 * (1 - 0.96^(k * momentum_decay) / 2); P = P * mu_k, in float32 as PyTorch does.
//  3. m = lerp(m, g, 1 - beta1);  v = beta2 * v + (1 - beta2) * g^2.
//  4. With n = sqrt(v / (1 - beta2^k)) + eps:
//     w = w - lr * (1 - mu_k) / (1 - P) * g / n - lr * mu_(k+1) / (1 - P * mu_(k+1)) * m / n.
#include <torch/torch.h>

#include "cairn/optim/optimizers.h"
#include "cairn/optim/own_optimizer.h"

#include "optim/optimizer_step.h"
#include "optim/option_checks.h"

namespace cairn {

void NAdamOptions::describe(GroupFields& group) {
  group.number("lr", lr);
  group.pair("betas", betas);
  group.number("eps", eps);
  group.number("weight_decay", weight_decay, 0);
  group.number("momentum_decay", momentum_decay);
  group.newer_flag("decoupled_weight_decay", decoupled_weight_decay);
  group.newer_flag("maximize", maximize);
  group.python_only("foreach", None{});
  group.python_only("capturable", false);
  group.python_only("differentiable", false);
}

namespace {

struct NAdamState {
  std::int64_t step = 0;
  at::Tensor mu_product = torch::scalar_tensor(1.0);  // P
  at::Tensor exp_avg = {};
  at::Tensor exp_avg_sq = {};

  void describe(StateFields& state, const NAdamOptions& /*options*/) {
    state.step("step", step);
    state.scalar("mu_product", mu_product);
    state.tensor("exp_avg", exp_avg);
    state.tensor("exp_avg_sq", exp_avg_sq);
  }
};

class NAdamOptimizer final : public FusableOptimizerOf<NAdamOptions, NAdamState> {
 public:
  using FusableOptimizerOf::FusableOptimizerOf;
  std::string python_name() const override { return "NAdam"; }

 private:
  void update(const Update& u) override {
    const Options& o = u.options;
    State& s = u.state;
    const DecayedMoments d(u);
    const Rates rates = next_rates(u);
    const at::Tensor norm = d.exp_avg_sq.div(1 - power(o.betas[1], s.step)).sqrt_().add_(o.eps);
    d.parameter.addcdiv_(d.gradient, norm, rates.gradient);
    d.parameter.addcdiv_(d.exp_avg, norm, rates.moment);
  }

  // The factors of g / n and m / n in formula 4, for the step that the state has counted.
  struct Rates {
    double gradient;
    double moment;
  };
  static Rates next_rates(const Update& u) {
    const Options& o = u.options;
    State& s = u.state;
    const double mu = momentum(o, s.step);
    const double mu_next = momentum(o, s.step + 1);
    s.mu_product.mul_(mu);
    const double product = s.mu_product.item<double>();
    return {.gradient = -o.lr * (1 - mu) / (1 - product),
            .moment = -o.lr * mu_next / (1 - product * mu_next)};
  }

  void update_together(const std::vector<Update>& updates) override {
    const auto step_of = [](const Update& u) {
      const Options& o = u.options;
      const Rates rates = next_rates(u);
      return fused::Nadam{.beta1 = o.betas[0],
                          .beta2 = o.betas[1],
                          .correction = 1 - power(o.betas[1], u.state.step),
                          .eps = o.eps,
                          .gradient_rate = rates.gradient,
                          .moment_rate = rates.moment};
    };
    step_group(updates, step_of, [this](const Update& u) { update(u); });
  }

  static double momentum(const Options& options, std::int64_t step) {
    const double exponent = static_cast<double>(step) * options.momentum_decay;
    return options.betas[0] * (1 - 0.5 * std::pow(0.96, exponent));
  }
};

}  // namespace

std::shared_ptr<torch::optim::Optimizer> NAdam::create(std::vector<at::Tensor> parameters) const {
  const OptionChecks check("NAdam");
  check.adam(options_);
  check.not_negative("momentum_decay", options_.momentum_decay);
  return RecipeOf<NAdamOptimizer>(options_).create(std::move(parameters));
}

}  // namespace cairn
