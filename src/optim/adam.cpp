// Adam and AdamW. Step k, for a parameter w with gradient g (arXiv:1412.6980 and 1711.05101, as
// PyTorch 2's Python computes it):
//
//  1. decay: Adam adds weight_decay * w to g; AdamW, and Adam with decoupled_weight_decay,
//     multiplies w by 1 - lr * weight_decay.
//  2. m = lerp(m, g, 1 - beta1).
//  3. adam_step().
//
// libtorch's own step updates the first moment with a product and a sum; Python's step (since 2.0)
// uses lerp. The last bits differ. If a gradient is only rounding error, Adam turns it into whole
// steps, so a run continues as in Python only with Python's order of operations. The options,
// states and archives are libtorch's.
#include <torch/torch.h>

#include "cairn/optim/optimizers.h"
#include "cairn/optim/own_optimizer.h"
#include "cairn/train/parameters.h"

#include "optim/optimizer_step.h"
#include "optim/option_checks.h"
#include "train/optimizer/state_format.h"
#include "train/optimizer/torch_layouts.h"

namespace cairn {
namespace {

constexpr const char* kDecoupled = "decoupled_weight_decay";

// Adam(decoupled_weight_decay=True) of newer Python versions, an option that libtorch's options
// lack.
bool is_decoupled(const torch::optim::OptimizerOptions& options) {
  const GroupExtras* extras = find_extras(options);
  const Value* flag = extras == nullptr ? nullptr : extras->loaded.find(kDecoupled);
  return flag != nullptr && flag->kind() == Kind::kBool && flag->as_bool();
}

template <class TorchClass, class Options, class State>
class AdamStepOf : public StepOf<TorchClass, Options, State> {
  using Step = StepOf<TorchClass, Options, State>;

 public:
  using Step::Step;

 private:
  void update(const typename Step::Update& u) final {
    const Options& o = u.options;
    State& s = u.state;
    const auto [beta1, beta2] = o.betas();
    Moments moments(u.parameter, o.amsgrad(), {&s.exp_avg(), &s.exp_avg_sq(), &s.max_exp_avg_sq()});
    const at::Tensor weights = real_view(u.parameter);
    at::Tensor gradient = real_view(u.gradient);
    if (o.weight_decay() != 0) gradient = decay(weights, gradient, o);
    moments.exp_avg.lerp_(gradient, 1 - beta1);
    s.step(s.step() + 1);
    adam_step(weights, gradient, moments, {o.lr(), {beta1, beta2}, o.eps(), o.amsgrad(), s.step()});
  }

  // Step 1. Returns the gradient for the next steps.
  virtual at::Tensor decay(const at::Tensor& weights, const at::Tensor& gradient,
                           const Options& options) const = 0;
};

using AdamStepBase =
    AdamStepOf<torch::optim::Adam, torch::optim::AdamOptions, torch::optim::AdamParamState>;
using AdamWStepBase =
    AdamStepOf<torch::optim::AdamW, torch::optim::AdamWOptions, torch::optim::AdamWParamState>;

at::Tensor decayed(const at::Tensor& parameter, const at::Tensor& gradient, const auto& options) {
  parameter.mul_(1 - options.lr() * options.weight_decay());
  return gradient;
}

// Converts to libtorch's options.
template <class To, class From>
To adam_options(const From& from) {
  return To(from.lr)
      .betas({from.betas[0], from.betas[1]})
      .eps(from.eps)
      .weight_decay(from.weight_decay)
      .amsgrad(from.amsgrad);
}

// Implements decoupled_weight_decay, unlike libtorch's class. The group keeps this flag among its
// loaded entries.
class AdamOptimizer final : public AdamStepBase, public TorchAdamLayout {
 public:
  AdamOptimizer(std::vector<at::Tensor> parameters, const cairn::AdamOptions& options)
      : AdamStepBase(std::move(parameters), adam_options<torch::optim::AdamOptions>(options)) {
    if (!options.decoupled_weight_decay) return;
    auto decoupled = std::make_unique<OptionsWithExtras<torch::optim::AdamOptions>>(
        adam_options<torch::optim::AdamOptions>(options));
    decoupled->loaded.set(kDecoupled, true);
    param_groups_.front().set_options(decoupled->clone());
    defaults_ = std::move(decoupled);  // for groups that are added later
  }

 private:
  at::Tensor decay(const at::Tensor& weights, const at::Tensor& gradient,
                   const Options& options) const override {
    return is_decoupled(options) ? decayed(weights, gradient, options)
                                 : gradient.add(weights, options.weight_decay());
  }
  void describe_decoupled(GroupFields& group) const override { group.flag_if_present(kDecoupled); }
};

class AdamWOptimizer final : public AdamWStepBase {
 public:
  using AdamWStepBase::AdamWStepBase;

 private:
  at::Tensor decay(const at::Tensor& weights, const at::Tensor& gradient,
                   const Options& options) const override {
    return decayed(weights, gradient, options);
  }
};

}  // namespace

std::shared_ptr<torch::optim::Optimizer> Adam::create(std::vector<at::Tensor> parameters) const {
  OptionChecks("Adam").adam(options_);
  return std::make_shared<AdamOptimizer>(unique_tensors(std::move(parameters)), options_);
}

std::shared_ptr<torch::optim::Optimizer> AdamW::create(std::vector<at::Tensor> parameters) const {
  OptionChecks("AdamW").adam(options_);
  return std::make_shared<AdamWOptimizer>(unique_tensors(std::move(parameters)),
                                          adam_options<torch::optim::AdamWOptions>(options_));
}

}  // namespace cairn
