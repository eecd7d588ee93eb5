// SGD: libtorch's, which computes as Python's does.
#include <torch/torch.h>

#include "cairn/optim/optimizers.h"
#include "cairn/train/parameters.h"

#include "optim/option_checks.h"
#include "optim/torch_layouts.h"

namespace cairn {
namespace {

using SGDState = torch::optim::SGDParamState;

class SGDLayout final : public LayoutOf<torch::optim::SGDOptions, SGDState> {
  std::string python_name() const override { return "SGD"; }
  void describe_group(GroupFields& group, torch::optim::SGDOptions& options) const override {
    group.number("lr", options.lr());
    group.number("momentum", options.momentum(), 0);
    group.number("dampening", options.dampening(), 0);
    group.number("weight_decay", options.weight_decay(), 0);
    group.flag("nesterov", options.nesterov());
    group.must_be("maximize", false);
    group.python_only("foreach", None{});
    group.python_only("differentiable", false);
    group.python_only("fused", None{});
  }
  void describe_state(StateFields& state, SGDState& values,
                      const torch::optim::SGDOptions& /*options*/) const override {
    state.tensor("momentum_buffer", values.momentum_buffer(), {.or_none = true});
  }
  // libtorch takes any state for one with a buffer; PyTorch 1.13 writes None without momentum.
  bool is_empty(const torch::optim::OptimizerParamState& state) const override {
    return !static_cast<const SGDState&>(state).momentum_buffer().defined();
  }
};

}  // namespace

const OptimizerLayout* sgd_layout(const torch::optim::Optimizer& optimizer) {
  return layout_if<torch::optim::SGD, SGDLayout>(optimizer);
}

std::shared_ptr<torch::optim::Optimizer> SGD::create(std::vector<at::Tensor> parameters) const {
  OptionChecks("SGD").sgd(options_);
  return std::make_shared<torch::optim::SGD>(each_once(std::move(parameters)),
                                             torch::optim::SGDOptions(options_.lr)
                                                 .momentum(options_.momentum)
                                                 .dampening(options_.dampening)
                                                 .weight_decay(options_.weight_decay)
                                                 .nesterov(options_.nesterov));
}

}  // namespace cairn
