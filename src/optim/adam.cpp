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
#include "train/fused/fused_step.h"
#include "train/optimizer/state_format.h"
#include "train/optimizer/torch_layouts.h"

namespace cairn {
namespace {

constexpr const char* kDecoupled = "decoupled_weight_decay";

// Adam(decoupled_weight_decay=True) of newer Python versions, an option that libtorch's options
// lack.
bool has_decoupled_flag(const torch::optim::OptimizerOptions& options) {
  const GroupExtras* extras = find_extras(options);
  const Value* flag = extras == nullptr ? nullptr : extras->loaded.find(kDecoupled);
  return flag != nullptr && flag->kind() == Kind::kBool && flag->as_bool();
}

template <class TorchClass, class Options, class State>
class AdamStepOf : public FusableStepOf<TorchClass, Options, State> {
  using Step = FusableStepOf<TorchClass, Options, State>;

 public:
  using Step::Step;

 private:
  void update(const typename Step::Update& u) final {
    const Options& o = u.options;
    State& s = u.state;
    Moments moments = moments_of(u);
    const at::Tensor weights = real_view(u.parameter);
    at::Tensor gradient = real_view(u.gradient);
    if (o.weight_decay() != 0) {
      if (is_decoupled(o)) {
        weights.mul_(1 - o.lr() * o.weight_decay());
      } else {
        gradient = gradient.add(weights, o.weight_decay());
      }
    }
    moments.exp_avg.lerp_(gradient, 1 - std::get<0>(o.betas()));
    adam_step(weights, gradient, moments, next_step(o, s));
  }

  void update_together(const std::vector<typename Step::Update>& updates) final {
    fused::FusedStep<fused::Adam> fused;
    for (const auto& u : updates) {
      const fused::States states = moments_of(u).all();
      if (fused::can_fuse(u.parameter, u.gradient, states)) {
        fused.add(fused_step(u), u.parameter, u.gradient, states);
      } else {
        update(u);
      }
    }
    fused.run();
  }

  fused::Adam fused_step(const typename Step::Update& u) {
    const Options& o = u.options;
    fused::Adam step = next_step(o, u.state).in_one_pass();
    if (o.weight_decay() == 0) return step;
    if (is_decoupled(o)) {
      step.keep = 1 - o.lr() * o.weight_decay();
    } else {
      step.flags |= fused::Adam::kAddsDecay;
      step.decay = o.weight_decay();
    }
    return step;
  }

  static Moments moments_of(const typename Step::Update& u) {
    State& s = u.state;
    return {u.parameter, u.options.amsgrad(), {&s.exp_avg(), &s.exp_avg_sq(), &s.max_exp_avg_sq()}};
  }

  static AdamStep next_step(const Options& o, State& s) {
    s.step(s.step() + 1);
    const auto [beta1, beta2] = o.betas();
    return {o.lr(), {beta1, beta2}, o.eps(), o.amsgrad(), s.step()};
  }

  virtual bool is_decoupled(const Options& options) const = 0;
};

using AdamStepBase =
    AdamStepOf<torch::optim::Adam, torch::optim::AdamOptions, torch::optim::AdamParamState>;
using AdamWStepBase =
    AdamStepOf<torch::optim::AdamW, torch::optim::AdamWOptions, torch::optim::AdamWParamState>;

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
  bool is_decoupled(const Options& options) const override { return has_decoupled_flag(options); }
  void describe_decoupled(GroupFields& group) const override { group.flag_if_present(kDecoupled); }
};

class AdamWOptimizer final : public AdamWStepBase {
 public:
  using AdamWStepBase::AdamWStepBase;

 private:
  bool is_decoupled(const Options& /*options*/) const override { return true; }
};

}  // namespace

std::shared_ptr<torch::optim::Optimizer> Adam::create(std::vector<at::Tensor> parameters) const {
  OptionChecks("Adam").adam(options_);
  auto made = std::make_shared<AdamOptimizer>(unique_tensors(std::move(parameters)), options_);
  made->set_fused(options_.fused);
  return made;
}

std::shared_ptr<torch::optim::Optimizer> AdamW::create(std::vector<at::Tensor> parameters) const {
  OptionChecks("AdamW").adam(options_);
  auto made = std::make_shared<AdamWOptimizer>(unique_tensors(std::move(parameters)),
                                               adam_options<torch::optim::AdamWOptions>(options_));
  made->set_fused(options_.fused);
  return made;
}

}  // namespace cairn
