// A user's own optimizer, Lion (arXiv:2302.06675), in two forms. OptimizerOf makes one form. The
// other form is an older class. It derives from libtorch's Optimizer as libtorch's documents say,
// and has a second base class for its layout.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "cairn/optim/own_optimizer.h"

namespace cairn::testing {

struct LionOptions {
  double lr = 1e-4;
  std::array<double, 2> betas = {0.9, 0.99};
  double weight_decay = 0;

  void describe(GroupFields& group) {
    group.number("lr", lr);
    group.pair("betas", betas);
    group.number("weight_decay", weight_decay);
  }
};

struct LionState {
  at::Tensor exp_avg = {};

  void describe(StateFields& state, const LionOptions& /*options*/) {
    state.tensor("exp_avg", exp_avg);
  }
};

inline void lion_update(const at::Tensor& parameter, const at::Tensor& gradient, at::Tensor& m,
                        const LionOptions& options) {
  if (!m.defined()) m = at::zeros_like(parameter);
  const auto [beta1, beta2] = options.betas;
  parameter.mul_(1 - options.lr * options.weight_decay);
  parameter.add_(m.lerp(gradient, 1 - beta1).sign(), -options.lr);
  m.lerp_(gradient, 1 - beta2);
}

class Lion final : public OptimizerOf<LionOptions, LionState> {
 public:
  using OptimizerOf::OptimizerOf;
  std::string python_name() const override { return "Lion"; }

 private:
  void update(const Update& u) override {
    lion_update(u.parameter, u.gradient, u.state.exp_avg, u.options);
  }
};

// --- The older form ------------------------------------------------------------------------------

struct OldLionOptions : torch::optim::OptimizerCloneableOptions<OldLionOptions> {
  double get_lr() const override { return values.lr; }
  void set_lr(const double lr) override { values.lr = lr; }
  LionOptions values;
};

struct OldLionState : torch::optim::OptimizerCloneableParamState<OldLionState> {
  at::Tensor exp_avg;
};

// Has no layout: it can train, but cannot be saved.
class UnsavedLion : public torch::optim::Optimizer {
 public:
  explicit UnsavedLion(std::vector<at::Tensor> parameters)
      : Optimizer(std::move(parameters), std::make_unique<OldLionOptions>()) {}

  at::Tensor step(LossClosure /*closure*/ = nullptr) override {
    const torch::NoGradGuard no_grad;
    for (auto& group : param_groups()) {
      const auto& options = static_cast<const OldLionOptions&>(group.options());
      for (const at::Tensor& parameter : group.params()) {
        if (!parameter.grad().defined()) continue;
        auto& slot = state_slot(*this, parameter);
        if (!slot) slot = std::make_unique<OldLionState>();
        lion_update(parameter, parameter.grad(), static_cast<OldLionState&>(*slot).exp_avg,
                    options.values);
      }
    }
    return {};
  }
};

class OldLion final : public UnsavedLion, public LayoutOf<OldLionOptions, OldLionState> {
 public:
  using UnsavedLion::UnsavedLion;
  std::string python_name() const override { return "Lion"; }

 private:
  void describe_group(GroupFields& group, OldLionOptions& options) const override {
    options.values.describe(group);
  }
  void describe_state(StateFields& state, OldLionState& values,
                      const OldLionOptions& /*options*/) const override {
    state.tensor("exp_avg", values.exp_avg);
  }
};

}  // namespace cairn::testing
