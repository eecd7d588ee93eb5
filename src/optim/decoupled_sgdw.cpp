// DecoupledSGDW. One step, for a parameter w with gradient g (arXiv:1711.05101, as Composer
// computes it):
//
//  1. momentum: buf = g the first time, then buf = momentum * buf + (1 - dampening) * g;
//     d = g + momentum * buf with nesterov, buf without; d = g without momentum.
//  2. decay: w = w * decay_factor().
//  3. w = w - lr * d.
#include <torch/torch.h>

#include "cairn/optim/optimizers.h"
#include "cairn/optim/own_optimizer.h"

#include "optim/optimizer_step.h"
#include "optim/option_checks.h"
#include "train/fused/fused_step.h"

namespace cairn {

void DecoupledSGDWOptions::describe(GroupFields& group) {
  group.number("lr", lr);
  group.number("momentum", momentum, 0);
  group.number("dampening", dampening, 0);
  group.number("weight_decay", weight_decay, 0);
  group.flag("nesterov", nesterov);
  group.python_only("maximize", false);  // Composer's class ignores it, too
  group.python_only("foreach", None{});
  group.python_only("differentiable", false);
  group.python_only("fused", None{});
}

namespace {

struct DecoupledSGDWState {
  at::Tensor momentum_buffer = {};  // undefined (Python's None) without momentum

  void describe(StateFields& state, const DecoupledSGDWOptions& /*options*/) {
    state.tensor("momentum_buffer", momentum_buffer, {.or_none = true});
  }
};

class DecoupledSGDWOptimizer final
    : public FusableOptimizerOf<DecoupledSGDWOptions, DecoupledSGDWState> {
 public:
  using FusableOptimizerOf::FusableOptimizerOf;
  std::string python_name() const override { return "DecoupledSGDW"; }

 private:
  void update(const Update& u) override {
    const at::Tensor d = direction(u);
    const double decay = decay_factor(u.options.weight_decay, u.options.lr, u.initial_lr);
    if (decay != 1) u.parameter.mul_(decay);
    u.parameter.add_(d, -u.options.lr);
  }

  void update_together(const std::vector<Update>& updates) override {
    fused::FusedStep<fused::Sgd> fused;
    for (const Update& u : updates) {
      const Options& o = u.options;
      const at::Tensor& buffer = u.state.momentum_buffer;
      const bool is_first = o.momentum != 0 && !buffer.defined();
      if (is_first || !fused::can_fuse(u.parameter, u.gradient, {buffer})) {
        update(u);
        continue;
      }
      fused::Sgd step = fused_sgd(o.lr, o.momentum, o.dampening, o.nesterov);
      step.keep = decay_factor(o.weight_decay, o.lr, u.initial_lr);
      fused.add(step, u.parameter, u.gradient, {buffer});
    }
    fused.run();
  }

  // The direction d.
  static at::Tensor direction(const Update& u) {
    const Options& o = u.options;
    if (o.momentum == 0) return u.gradient;
    at::Tensor& buffer = u.state.momentum_buffer;
    if (buffer.defined()) {
      buffer.mul_(o.momentum).add_(u.gradient, 1 - o.dampening);
    } else {
      buffer = u.gradient.clone();
    }
    return o.nesterov ? u.gradient.add(buffer, o.momentum) : buffer;
  }
};

}  // namespace

std::shared_ptr<torch::optim::Optimizer> DecoupledSGDW::create(
    std::vector<at::Tensor> parameters) const {
  OptionChecks("DecoupledSGDW").sgd(options_);
  return RecipeOf<DecoupledSGDWOptimizer>(options_).create(std::move(parameters));
}

}  // namespace cairn
