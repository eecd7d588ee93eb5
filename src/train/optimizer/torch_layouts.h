// The layouts of libtorch's own classes.
#pragma once

#include <torch/torch.h>

#include "cairn/train/optimizer_layout.h"

namespace cairn {

// Nullptr for an optimizer of another class.
const OptimizerLayout* find_torch_layout(const torch::optim::Optimizer& optimizer);

// The initial value of Adagrad's sums.
at::Tensor first_adagrad_sum(const at::Tensor& parameter,
                             const torch::optim::AdagradOptions& options);

// For Adam and AdamW, which differ in the place of "maximize" and "foreach".
template <class Options, class State, bool kIsAdamW>
class AdamLayout : public LayoutOf<Options, State> {
 public:
  std::string python_name() const override { return kIsAdamW ? "AdamW" : "Adam"; }

 private:
  void describe_group(GroupFields& group, Options& options) const override {
    group.number("lr", options.lr());
    group.pair("betas", options.betas());
    group.number("eps", options.eps());
    kIsAdamW ? group.number("weight_decay", options.weight_decay())
             : group.number("weight_decay", options.weight_decay(), 0);
    group.flag("amsgrad", options.amsgrad());
    if (kIsAdamW) group.python_only("foreach", None{});
    group.must_be("maximize", false);
    if (!kIsAdamW) group.python_only("foreach", None{});
    group.python_only("capturable", false);
    group.python_only("differentiable", false);
    group.python_only("fused", None{});
    describe_decoupled(group);
  }
  void describe_state(StateFields& state, State& values, const Options& options) const override {
    state.step("step", values.step());
    state.tensor("exp_avg", values.exp_avg());
    state.tensor("exp_avg_sq", values.exp_avg_sq());
    state.tensor("max_exp_avg_sq", values.max_exp_avg_sq(), {.required = options.amsgrad()});
  }
  // Newer PyTorch's flag "decoupled_weight_decay". libtorch's Adam ignores it.
  virtual void describe_decoupled(GroupFields& group) const {
    group.must_be_if_present("decoupled_weight_decay", kIsAdamW);
  }
};

using TorchAdamLayout =
    AdamLayout<torch::optim::AdamOptions, torch::optim::AdamParamState, /*kIsAdamW=*/false>;
using TorchAdamWLayout =
    AdamLayout<torch::optim::AdamWOptions, torch::optim::AdamWParamState, /*kIsAdamW=*/true>;

}  // namespace cairn
