// SGD. One step, for a parameter w with gradient g, as PyTorch computes it. weight_decay * w was
// added to g:
//
//  1. momentum: buf = g the first time, then buf = momentum * buf + (1 - dampening) * g;
//     d = g + momentum * buf with nesterov, buf without; d = g without momentum.
//  2. w = w - lr * d.
//
// The options, states and archives are libtorch's.
#include <torch/torch.h>

#include "cairn/optim/optimizers.h"
#include "cairn/optim/own_optimizer.h"
#include "cairn/train/parameters.h"

#include "optim/optimizer_step.h"
#include "optim/option_checks.h"
#include "train/fused/fused_step.h"

namespace cairn {
namespace {

class SGDOptimizer final : public FusableStepOf<torch::optim::SGD, torch::optim::SGDOptions,
                                                torch::optim::SGDParamState> {
 public:
  using FusableStepOf::FusableStepOf;

 private:
  bool takes_sparse_gradients() const override { return true; }
  bool needs_state(const Options& options) const override { return options.momentum() != 0; }

  void update(const Update& u) override {
    const Options& o = u.options;
    at::Tensor d = with_decay(u.gradient, u.parameter, o.weight_decay());
    if (o.momentum() != 0) {
      at::Tensor buffer = u.state.momentum_buffer();
      if (buffer.defined()) {
        buffer.mul_(o.momentum()).add_(d, 1 - o.dampening());
      } else {
        buffer = d.clone();
        u.state.momentum_buffer(buffer);
      }
      d = o.nesterov() ? d.add(buffer, o.momentum()) : buffer;
    }
    u.parameter.add_(d, -o.lr());
  }

  void update_together(const std::vector<Update>& updates) override {
    fused::FusedStep<fused::Sgd> fused;
    for (const Update& u : updates) {
      const Options& o = u.options;
      const at::Tensor& buffer = u.state.momentum_buffer();
      const bool is_first = o.momentum() != 0 && !buffer.defined();
      if (is_first || !fused::can_fuse(u.parameter, u.gradient, {buffer})) {
        update(u);
        continue;
      }
      fused::Sgd step = fused_sgd(o.lr(), o.momentum(), o.dampening(), o.nesterov());
      if (o.weight_decay() != 0) step.flags |= fused::Sgd::kAddsDecay;
      step.decay = o.weight_decay();
      fused.add(step, u.parameter, u.gradient, {buffer});
    }
    fused.run();
  }
};

}  // namespace

std::shared_ptr<torch::optim::Optimizer> SGD::create(std::vector<at::Tensor> parameters) const {
  OptionChecks("SGD").sgd(options_);
  auto made = std::make_shared<SGDOptimizer>(unique_tensors(std::move(parameters)),
                                             torch::optim::SGDOptions(options_.lr)
                                                 .momentum(options_.momentum)
                                                 .dampening(options_.dampening)
                                                 .weight_decay(options_.weight_decay)
                                                 .nesterov(options_.nesterov));
  made->set_fused(options_.fused);
  return made;
}

}  // namespace cairn
