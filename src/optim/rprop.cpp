// Rprop. One step, for each weight w with gradient g and step size s (Riedmiller and Braun 1993, as
// PyTorch's Python computes it):
//
//  1. If the sign of g is the previous one: s = s * etas[1]. If it changed: s = s * etas[0] and
//     g = 0. Then s is clamped to step_sizes.
//  2. w = w - sign(g) * s.
#include <torch/torch.h>

#include "cairn/optim/optimizers.h"
#include "cairn/optim/own_optimizer.h"

#include "optim/optimizer_step.h"
#include "optim/option_checks.h"
#include "optim/shared_keys.h"

namespace cairn {

void RpropOptions::describe(GroupFields& group) {
  group.number("lr", lr);
  group.pair("etas", etas);
  group.pair("step_sizes", step_sizes, Tuple{{1e-6, 50}});
  describe_newer_keys(group, maximize);
}

namespace {

struct RpropState {
  std::int64_t step = 0;
  at::Tensor prev = {};
  at::Tensor step_size = {};

  void describe(StateFields& state, const RpropOptions& /*options*/) {
    state.step("step", step);
    state.tensor("prev", prev);
    state.tensor("step_size", step_size);
  }
};

class RpropOptimizer final : public OptimizerOf<RpropOptions, RpropState> {
 public:
  using OptimizerOf::OptimizerOf;
  std::string python_name() const override { return "Rprop"; }

 private:
  void update(const Update& u) override {
    const Options& o = u.options;
    State& s = u.state;
    prepare(u.parameter, {&s.prev});
    if (!s.step_size.defined()) {
      prepare(u.parameter, {&s.step_size});
      real_view(s.step_size).fill_(o.lr);
    }
    at::Tensor gradient = real_view(u.gradient);
    const at::Tensor step_size = real_view(s.step_size);
    ++s.step;
    const at::Tensor turned = gradient.mul(real_view(s.prev));
    const at::Tensor ones = at::ones_like(gradient);
    const at::Tensor factor =
        at::where(turned.gt(0), ones * o.etas[1], at::where(turned.lt(0), ones * o.etas[0], ones));
    step_size.mul_(factor).clamp_(o.step_sizes[0], o.step_sizes[1]);
    gradient = gradient.masked_fill(turned.lt(0), 0);
    real_view(u.parameter).addcmul_(gradient.sign(), step_size, -1);
    real_view(s.prev).copy_(gradient);
  }
};

}  // namespace

std::shared_ptr<torch::optim::Optimizer> Rprop::create(std::vector<at::Tensor> parameters) const {
  const OptionChecks check("Rprop");
  check.not_negative("lr", options_.lr);
  check.etas(options_.etas);
  return RecipeOf<RpropOptimizer>(options_).create(std::move(parameters));
}

}  // namespace cairn
