// Adagrad. Step k, for a parameter w with gradient g (Duchi, Hazan and Singer 2011, as PyTorch's
// Python computes it). weight_decay * w was added to g:
//
//  1. s = s + g^2.
//  2. w = w - lr / (1 + (k - 1) * lr_decay) * g / (sqrt(s) + eps).
//
// A sparse gradient changes only its rows. The options, states and archives are libtorch's.
// libtorch's own step is not used, since it squares complex numbers.
#include <torch/torch.h>

#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/optim/own_optimizer.h"
#include "cairn/train/parameters.h"

#include "optim/optimizer_step.h"
#include "optim/option_checks.h"
#include "train/fused/fused_step.h"
#include "train/optimizer/torch_layouts.h"

namespace cairn {
namespace {

class AdagradOptimizer final
    : public FusableStepOf<torch::optim::Adagrad, torch::optim::AdagradOptions,
                           torch::optim::AdagradParamState> {
 public:
  using FusableStepOf::FusableStepOf;

 private:
  bool takes_sparse_gradients() const override { return true; }

  void update(const Update& u) override {
    const Options& o = u.options;
    State& s = u.state;
    prepare_sum(u);
    const double rate = next_rate(u);
    if (u.gradient.is_sparse()) return update_rows(u, rate);
    const at::Tensor gradient = real_view(with_decay(u.gradient, u.parameter, o.weight_decay()));
    const at::Tensor sum = real_view(s.sum());
    sum.addcmul_(gradient, gradient, 1);
    real_view(u.parameter).addcdiv_(gradient, sum.sqrt().add_(o.eps()), -rate);
  }

  static void prepare_sum(const Update& u) {
    State& s = u.state;
    // libtorch's constructor gives complex sums no imaginary part.
    if (!s.sum().defined() || s.step() == 0) s.sum(first_adagrad_sum(u.parameter, u.options));
  }

  static double next_rate(const Update& u) {
    State& s = u.state;
    const double rate = u.options.lr() / (1 + static_cast<double>(s.step()) * u.options.lr_decay());
    s.step(s.step() + 1);
    return rate;
  }

  void update_together(const std::vector<Update>& updates) override {
    fused::FusedStep<fused::Adagrad> fused;
    for (const Update& u : updates) {
      prepare_sum(u);
      if (!fused::can_fuse(u.parameter, u.gradient, {u.state.sum()})) {
        update(u);
        continue;
      }
      const Options& o = u.options;
      fused.add({.flags = o.weight_decay() != 0 ? fused::Adagrad::kAddsDecay : 0U,
                 .decay = o.weight_decay(),
                 .eps = o.eps(),
                 .rate = -next_rate(u)},
                u.parameter, u.gradient, {u.state.sum()});
    }
    fused.run();
  }

  static void update_rows(const Update& u, double rate) {
    if (u.options.weight_decay() != 0) {
      throw UnsupportedError("Adagrad: weight_decay does not work with sparse gradients");
    }
    const SparseRows rows(u.gradient);
    if (rows.empty()) return;
    u.state.sum().add_(rows.with(rows.values.pow(2)));
    const at::Tensor norm = rows.values_of(u.state.sum()).sqrt_().add_(u.options.eps());
    u.parameter.add_(rows.with(rows.values / norm), -rate);
  }
};

}  // namespace

std::shared_ptr<torch::optim::Optimizer> Adagrad::create(std::vector<at::Tensor> parameters) const {
  const OptionChecks check("Adagrad");
  check.not_negative("lr", options_.lr);
  check.not_negative("lr_decay", options_.lr_decay);
  check.not_negative("weight_decay", options_.weight_decay);
  check.not_negative("initial_accumulator_value", options_.initial_accumulator_value);
  check.not_negative("eps", options_.eps);
  auto made = std::make_shared<AdagradOptimizer>(
      unique_tensors(std::move(parameters)),
      torch::optim::AdagradOptions(options_.lr)
          .lr_decay(options_.lr_decay)
          .weight_decay(options_.weight_decay)
          .initial_accumulator_value(options_.initial_accumulator_value)
          .eps(options_.eps));
  made->set_fused(options_.fused);
  return made;
}

}  // namespace cairn
