// A class of libtorch whose step is cairn's: its options, states and archives stay libtorch's, and
// its step is written as in an optimizer of one's own (cairn/optim/own_optimizer.h).
#pragma once

#include <torch/torch.h>

#include "cairn/optim/own_optimizer.h"

#include "train/optimizer/param_state.h"
#include "train/optimizer/state_format.h"

namespace cairn {

template <class TorchClass, class OptionsType, class StateType>
class TorchStepOf : public TorchClass {
 public:
  using TorchClass::TorchClass;
  using Options = OptionsType;
  using State = StateType;

  // Parameters without a gradient are passed over, as Python does.
  at::Tensor step(torch::optim::Optimizer::LossClosure closure = nullptr) final {
    at::Tensor loss = closure_loss(closure);
    const torch::NoGradGuard no_grad;
    const OptimizerLayout& layout = layout_of(*this);
    const GradientOptions wanted{.takes_sparse = takes_sparse_gradients()};
    for (auto& group : this->param_groups()) {
      const auto& options = static_cast<const Options&>(group.options());
      for (const at::Tensor& parameter : group.params()) {
        const at::Tensor gradient = gradient_of(parameter, layout, wanted);
        if (!gradient.defined()) continue;
        update({parameter, gradient, param_state<State>(*this, parameter), options});
      }
    }
    return loss;
  }

 protected:
  // As in OptimizerOf.
  struct Update {
    const at::Tensor& parameter;
    const at::Tensor& gradient;
    State& state;
    const Options& options;
  };
  virtual void update(const Update& u) = 0;
  virtual bool takes_sparse_gradients() const { return false; }
};

}  // namespace cairn
