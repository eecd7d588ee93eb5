// Code that the steps of cairn's optimizers share.
#pragma once

#include <torch/torch.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "cairn/optim/own_optimizer.h"

#include "train/fused/fused_step.h"

namespace cairn {

// Views complex numbers as pairs of real numbers, which a step treats like any other real numbers
// (as PyTorch does).
inline at::Tensor real_view(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_complex() ? at::view_as_real(tensor) : tensor;
}

// Sets each undefined moment to zeros like the parameter.
inline void prepare(const at::Tensor& parameter, std::initializer_list<at::Tensor*> moments) {
  for (at::Tensor* moment : moments) {
    if (!moment->defined()) *moment = at::zeros_like(parameter, at::MemoryFormat::Preserve);
  }
}

// Returns the gradient with weight decay added.
inline at::Tensor with_decay(const at::Tensor& gradient, const at::Tensor& parameter,
                             double weight_decay) {
  return weight_decay == 0 ? gradient : gradient.add(parameter, weight_decay);
}

// Returns the gradient for the next steps. If weight decay is decoupled, as in AdamW, decays the
// parameter and returns the gradient unchanged.
inline at::Tensor decayed_gradient(const at::Tensor& parameter, const at::Tensor& gradient,
                                   const auto& options) {
  if (!options.decoupled_weight_decay) {
    return with_decay(gradient, parameter, options.weight_decay);
  }
  if (options.weight_decay != 0) parameter.mul_(1 - options.lr * options.weight_decay);
  return gradient;
}

// The factor of a parameter before its update, as in Composer's optimizers; 1 without weight decay.
// With this factor, unlike with 1 - lr * weight_decay, the decay of a whole run depends on the
// schedule of the rate, and not on the initial rate.
inline double decay_factor(double weight_decay, double lr, double initial_lr) {
  return 1 - weight_decay * (initial_lr == 0 ? 1 : lr / initial_lr);
}

inline double power(double base, std::int64_t exponent) {
  return std::pow(base, static_cast<double>(exponent));
}

inline fused::Sgd fused_sgd(double lr, double momentum, double dampening, bool nesterov) {
  return {.flags = (momentum != 0 ? fused::Sgd::kMomentum : 0U) |
                   (momentum != 0 && nesterov ? fused::Sgd::kNesterov : 0U),
          .momentum = momentum,
          .dampening = dampening,
          .rate = -lr};
}

// The moments of Adam and similar optimizers, as real numbers. Made at the first gradient. The
// largest second moment is made at the first step with amsgrad, which may be later.
struct Moments {
  Moments(const at::Tensor& parameter, bool amsgrad, const std::array<at::Tensor*, 3>& moments) {
    prepare(parameter, {moments[0], moments[1]});
    if (amsgrad) prepare(parameter, {moments[2]});
    exp_avg = real_view(*moments[0]);
    exp_avg_sq = real_view(*moments[1]);
    if (amsgrad) max_exp_avg_sq = real_view(*moments[2]);
  }
  std::array<at::Tensor, 3> all() const { return {exp_avg, exp_avg_sq, max_exp_avg_sq}; }

  at::Tensor exp_avg;
  at::Tensor exp_avg_sq;
  at::Tensor max_exp_avg_sq;
};

// Sets the coefficients of weight decay in a step of NAdam or RAdam in one pass.
void set_decay(auto& step, const auto& options) {
  if (options.weight_decay == 0) return;
  if (options.decoupled_weight_decay) {
    step.keep = 1 - options.lr * options.weight_decay;
  } else {
    step.flags |= step.kAddsDecay;
    step.decay = options.weight_decay;
  }
}

// The step of a group for NAdam and RAdam, in one pass where a kernel fits. `step_of(update)`
// returns the step without weight decay, after the state has counted it. `step_alone(update)` does
// the whole step of one parameter.
void step_group(const auto& updates, auto step_of, auto step_alone) {
  fused::FusedStep<decltype(step_of(updates.front()))> fused;
  for (const auto& u : updates) {
    prepare(u.parameter, {&u.state.exp_avg, &u.state.exp_avg_sq});
    const fused::States states = {u.state.exp_avg, u.state.exp_avg_sq};
    if (!fused::can_fuse(u.parameter, u.gradient, states)) {
      step_alone(u);
      continue;
    }
    ++u.state.step;
    auto step = step_of(u);
    set_decay(step, u.options);
    fused.add(step, u.parameter, u.gradient, states);
  }
  fused.run();
}

// The first part of a step of NAdam and RAdam:
//  g = decayed_gradient();  m = lerp(m, g, 1 - beta1);  v = beta2 * v + (1 - beta2) * g^2
struct DecayedMoments {
  // `u` is the optimizer's Update; its state has step, exp_avg and exp_avg_sq.
  explicit DecayedMoments(const auto& u) {
    const auto [beta1, beta2] = u.options.betas;
    prepare(u.parameter, {&u.state.exp_avg, &u.state.exp_avg_sq});
    ++u.state.step;
    parameter = real_view(u.parameter);
    gradient = decayed_gradient(parameter, real_view(u.gradient), u.options);
    exp_avg = real_view(u.state.exp_avg).lerp_(gradient, 1 - beta1);
    exp_avg_sq = real_view(u.state.exp_avg_sq).mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
  }

  at::Tensor parameter;
  at::Tensor gradient;
  at::Tensor exp_avg;
  at::Tensor exp_avg_sq;
};

// An optimizer class of libtorch with a step of all parameters together, unless the option `fused`
// is false.
template <class TorchClass, class Options, class State>
class FusableStepOf : public StepOf<TorchClass, Options, State> {
  using Step = StepOf<TorchClass, Options, State>;

 public:
  using Step::Step;
  void set_fused(bool fused) { fused_ = fused; }

 private:
  void update_all(const std::vector<typename Step::Update>& updates) final {
    fused_ ? update_together(updates) : Step::update_all(updates);
  }
  virtual void update_together(const std::vector<typename Step::Update>& updates) = 0;

  bool fused_ = true;
};

// The same for a class of cairn's own, whose options have `fused`.
template <class Options, class State>
class FusableOptimizerOf : public OptimizerOf<Options, State> {
  using Optimizer = OptimizerOf<Options, State>;

 public:
  using Optimizer::Optimizer;

 private:
  void update_all(const std::vector<typename Optimizer::Update>& updates) final {
    const bool fused = updates.empty() || updates.front().options.fused;
    fused ? update_together(updates) : Optimizer::update_all(updates);
  }
  virtual void update_together(const std::vector<typename Optimizer::Update>& updates) = 0;
};

// The rows of a sparse gradient.
struct SparseRows {
  explicit SparseRows(const at::Tensor& given)
      : gradient(given.coalesce()), values(gradient.values()) {}
  bool empty() const { return values.numel() == 0; }
  // with(): these rows with other values. values_of(): a dense tensor's values in these rows.
  at::Tensor with(const at::Tensor& other_values) const {
    return at::sparse_coo_tensor(gradient.indices(), other_values, gradient.sizes());
  }
  at::Tensor values_of(const at::Tensor& dense) const {
    return dense.sparse_mask(gradient)._values();
  }

  at::Tensor gradient;
  at::Tensor values;
};

struct AdamStep {
  double lr;
  std::array<double, 2> betas;
  double eps;
  bool amsgrad;
  std::int64_t step;  // counted from 1

  // The same in one pass, without weight decay.
  fused::Adam in_one_pass() const {
    return {.flags = amsgrad ? fused::Adam::kAmsgrad : 0U,
            .beta1 = betas[0],
            .beta2 = betas[1],
            .root = std::sqrt(1 - power(betas[1], step)),
            .eps = eps,
            .rate = -lr / (1 - power(betas[0], step)),
            .lr = lr,
            .count = step};
  }
};

// Takes the first moment m, already updated, and the gradient g:
//  v = beta2 * v + (1 - beta2) * g^2
//  w = w - lr / (1 - beta1^k) * m / (sqrt(v) / sqrt(1 - beta2^k) + eps)
// With amsgrad, the last line uses the largest v so far.
inline void adam_step(const at::Tensor& parameter, const at::Tensor& gradient, Moments& moments,
                      const AdamStep& step) {
  const auto [beta1, beta2] = step.betas;
  const double correction1 = 1 - power(beta1, step.step);
  const double correction2 = 1 - power(beta2, step.step);
  moments.exp_avg_sq.mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
  if (step.amsgrad) {
    at::maximum_out(moments.max_exp_avg_sq, moments.max_exp_avg_sq, moments.exp_avg_sq);
  }
  const at::Tensor& second = step.amsgrad ? moments.max_exp_avg_sq : moments.exp_avg_sq;
  const at::Tensor denominator = second.sqrt().div_(std::sqrt(correction2)).add_(step.eps);
  parameter.addcdiv_(moments.exp_avg, denominator, -step.lr / correction1);
}

}  // namespace cairn
