// DecoupledAdamW. Step k, for a parameter w with gradient g (arXiv:1711.05101, as Composer computes
// it):
//
//  1. decay: w = w * decay_factor().
//  2. m = beta1 * m + (1 - beta1) * g.
//  3. adam_step().
#include <torch/torch.h>

#include "cairn/optim/optimizers.h"
#include "cairn/optim/own_optimizer.h"

#include "optim/optimizer_step.h"
#include "optim/option_checks.h"
#include "train/fused/fused_step.h"

namespace cairn {

void DecoupledAdamWOptions::describe(GroupFields& group) {
  group.number("lr", lr);
  group.pair("betas", betas);
  group.number("eps", eps);
  group.number("weight_decay", weight_decay);
  group.flag("amsgrad", amsgrad);
  group.python_only("foreach", None{});
  group.python_only("maximize", false);  // Composer's class ignores these, too
  group.python_only("capturable", false);
  group.python_only("differentiable", false);
  group.python_only("fused", None{});
}

namespace {

struct DecoupledAdamWState {
  std::int64_t step = 0;
  at::Tensor exp_avg = {};
  at::Tensor exp_avg_sq = {};
  at::Tensor max_exp_avg_sq = {};  // with amsgrad only

  void describe(StateFields& state, const DecoupledAdamWOptions& options) {
    state.step("step", step);
    state.tensor("exp_avg", exp_avg);
    state.tensor("exp_avg_sq", exp_avg_sq);
    state.tensor("max_exp_avg_sq", max_exp_avg_sq, {.required = options.amsgrad});
  }
};

class DecoupledAdamWOptimizer final
    : public FusableOptimizerOf<DecoupledAdamWOptions, DecoupledAdamWState> {
 public:
  using FusableOptimizerOf::FusableOptimizerOf;
  std::string python_name() const override { return "DecoupledAdamW"; }

 private:
  void update(const Update& u) override {
    const Options& o = u.options;
    Moments moments = moments_of(u);
    const at::Tensor weights = real_view(u.parameter);
    const at::Tensor gradient = real_view(u.gradient);
    const double decay = decay_factor(o.weight_decay, o.lr, u.initial_lr);
    if (decay != 1) weights.mul_(decay);
    moments.exp_avg.mul_(o.betas[0]).add_(gradient, 1 - o.betas[0]);
    adam_step(weights, gradient, moments, next_step(u));
  }

  void update_together(const std::vector<Update>& updates) override {
    fused::FusedStep<fused::Adam> fused;
    for (const Update& u : updates) {
      const fused::States states = moments_of(u).all();
      if (!fused::can_fuse(u.parameter, u.gradient, states)) {
        update(u);
        continue;
      }
      fused::Adam step = next_step(u).in_one_pass();
      step.flags |= fused::Adam::kScalesMoment;
      step.keep = decay_factor(u.options.weight_decay, u.options.lr, u.initial_lr);
      fused.add(step, u.parameter, u.gradient, states);
    }
    fused.run();
  }

  static Moments moments_of(const Update& u) {
    State& s = u.state;
    return {u.parameter, u.options.amsgrad, {&s.exp_avg, &s.exp_avg_sq, &s.max_exp_avg_sq}};
  }

  static AdamStep next_step(const Update& u) {
    const Options& o = u.options;
    return {o.lr, o.betas, o.eps, o.amsgrad, ++u.state.step};
  }
};

}  // namespace

std::shared_ptr<torch::optim::Optimizer> DecoupledAdamW::create(
    std::vector<at::Tensor> parameters) const {
  OptionChecks("DecoupledAdamW").adam(options_);
  return RecipeOf<DecoupledAdamWOptimizer>(options_).create(std::move(parameters));
}

}  // namespace cairn
