// RMSprop. One step, for a parameter w with gradient g (Hinton's lecture 6e and, centered,
// arXiv:1308.0850, as PyTorch 2's Python computes it). weight_decay * w was added to g:
//
//  1. v = alpha * v + (1 - alpha) * g^2;  n = sqrt(v) + eps; centered: a = lerp(a, g, 1 - alpha)
//     and n = sqrt(v - a^2) + eps.
//  2. w = w - lr * g / n; with momentum: b = momentum * b + g / n and w = w - lr * b.
//
// The options, states and archives are libtorch's. libtorch's own step is not used, since it
// squares complex numbers.
#include <torch/torch.h>

#include "cairn/optim/optimizers.h"
#include "cairn/optim/own_optimizer.h"
#include "cairn/train/parameters.h"

#include "optim/optimizer_step.h"
#include "optim/option_checks.h"
#include "train/fused/fused_step.h"

namespace cairn {
namespace {

class RMSpropOptimizer final
    : public FusableStepOf<torch::optim::RMSprop, torch::optim::RMSpropOptions,
                           torch::optim::RMSpropParamState> {
 public:
  using FusableStepOf::FusableStepOf;

 private:
  void update(const Update& u) override {
    const Options& o = u.options;
    State& s = u.state;
    prepare_states(u);
    s.step(s.step() + 1);
    const at::Tensor gradient = real_view(with_decay(u.gradient, u.parameter, o.weight_decay()));
    const at::Tensor weights = real_view(u.parameter);
    const at::Tensor square_avg = real_view(s.square_avg());
    square_avg.mul_(o.alpha()).addcmul_(gradient, gradient, 1 - o.alpha());
    at::Tensor norm = square_avg.clone();
    if (o.centered()) {
      const at::Tensor average = real_view(s.grad_avg());
      average.lerp_(gradient, 1 - o.alpha());
      norm.addcmul_(average, average, -1);
    }
    norm.sqrt_().add_(o.eps());
    if (o.momentum() > 0) {
      const at::Tensor buffer = real_view(s.momentum_buffer());
      weights.add_(buffer.mul_(o.momentum()).addcdiv_(gradient, norm), -o.lr());
    } else {
      weights.addcdiv_(gradient, norm, -o.lr());
    }
  }

  static void prepare_states(const Update& u) {
    prepare(u.parameter, {&u.state.square_avg()});
    if (u.options.momentum() > 0) prepare(u.parameter, {&u.state.momentum_buffer()});
    if (u.options.centered()) prepare(u.parameter, {&u.state.grad_avg()});
  }

  void update_together(const std::vector<Update>& updates) override {
    fused::FusedStep<fused::Rmsprop> fused;
    for (const Update& u : updates) {
      prepare_states(u);
      State& s = u.state;
      const fused::States states = {s.square_avg(), s.grad_avg(), s.momentum_buffer()};
      if (!fused::can_fuse(u.parameter, u.gradient, states)) {
        update(u);
        continue;
      }
      s.step(s.step() + 1);
      fused.add(fused_step(u.options), u.parameter, u.gradient, states);
    }
    fused.run();
  }

  static fused::Rmsprop fused_step(const Options& o) {
    fused::Rmsprop step = {.decay = o.weight_decay(),
                           .alpha = o.alpha(),
                           .eps = o.eps(),
                           .momentum = o.momentum(),
                           .rate = -o.lr()};
    if (o.weight_decay() != 0) step.flags |= fused::Rmsprop::kAddsDecay;
    if (o.centered()) step.flags |= fused::Rmsprop::kCentered;
    if (o.momentum() > 0) step.flags |= fused::Rmsprop::kMomentum;
    return step;
  }
};

}  // namespace

std::shared_ptr<torch::optim::Optimizer> RMSprop::create(std::vector<at::Tensor> parameters) const {
  const OptionChecks check("RMSprop");
  check.not_negative("lr", options_.lr);
  check.not_negative("alpha", options_.alpha);
  check.not_negative("eps", options_.eps);
  check.not_negative("weight_decay", options_.weight_decay);
  check.not_negative("momentum", options_.momentum);
  auto made = std::make_shared<RMSpropOptimizer>(unique_tensors(std::move(parameters)),
                                                 torch::optim::RMSpropOptions(options_.lr)
                                                     .alpha(options_.alpha)
                                                     .eps(options_.eps)
                                                     .weight_decay(options_.weight_decay)
                                                     .momentum(options_.momentum)
                                                     .centered(options_.centered));
  made->set_fused(options_.fused);
  return made;
}

}  // namespace cairn
