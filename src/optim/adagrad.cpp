// Adagrad. Step k, for a parameter w with gradient g (Duchi, Hazan and Singer 2011, as PyTorch's
// Python computes it), g with weight_decay * w added:
//
//  1. s = s + g^2.
//  2. w = w - lr / (1 + (k - 1) * lr_decay) * g / (sqrt(s) + eps).
//
// Of a sparse gradient only the rows that it has. The options, states and archives are libtorch's,
// whose own step takes squares of complex numbers.
#include <torch/torch.h>

#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/parameters.h"

#include "optim/optimizer_step.h"
#include "optim/option_checks.h"
#include "optim/torch_layouts.h"
#include "optim/torch_step.h"

namespace cairn {
namespace {

using AdagradState = torch::optim::AdagradParamState;

at::Tensor first_sum(const at::Tensor& parameter, const torch::optim::AdagradOptions& options) {
  const at::Tensor sum = at::empty_like(parameter, at::MemoryFormat::Preserve);
  real_view(sum).fill_(options.initial_accumulator_value());
  return sum;
}

class AdagradLayout final : public LayoutOf<torch::optim::AdagradOptions, AdagradState> {
  std::string python_name() const override { return "Adagrad"; }
  void describe_group(GroupFields& group, torch::optim::AdagradOptions& options) const override {
    group.number("lr", options.lr());
    group.number("lr_decay", options.lr_decay(), 0);
    group.number("eps", options.eps());
    group.number("weight_decay", options.weight_decay(), 0);
    group.number("initial_accumulator_value", options.initial_accumulator_value(), 0);
    group.python_only("foreach", None{});
    group.must_be("maximize", false);
    group.python_only("differentiable", false);
    group.python_only("fused", None{});
  }
  void describe_state(StateFields& state, AdagradState& values,
                      const torch::optim::AdagradOptions& /*options*/) const override {
    state.step("step", values.step());
    state.tensor("sum", values.sum());
  }
  // Adagrad's state is there from its construction on, and its step() counts on that.
  std::unique_ptr<torch::optim::OptimizerParamState> initial_state(
      const at::Tensor& parameter, const torch::optim::OptimizerOptions& options) const override {
    auto state = std::make_unique<AdagradState>();
    state->step(0);
    state->sum(first_sum(parameter, as<const torch::optim::AdagradOptions>(options, "options")));
    return state;
  }
};

class AdagradOptimizer final
    : public TorchStepOf<torch::optim::Adagrad, torch::optim::AdagradOptions, AdagradState> {
 public:
  using TorchStepOf::TorchStepOf;

 private:
  bool takes_sparse_gradients() const override { return true; }

  void update(const Update& u) override {
    const Options& o = u.options;
    State& s = u.state;
    // libtorch's constructor gives complex sums no imaginary part.
    if (!s.sum().defined() || s.step() == 0) s.sum(first_sum(u.parameter, o));
    const double rate = o.lr() / (1 + static_cast<double>(s.step()) * o.lr_decay());
    s.step(s.step() + 1);
    if (u.gradient.is_sparse()) return update_rows(u, rate);
    const at::Tensor gradient = real_view(with_decay(u.gradient, u.parameter, o.weight_decay()));
    const at::Tensor sum = real_view(s.sum());
    sum.addcmul_(gradient, gradient, 1);
    real_view(u.parameter).addcdiv_(gradient, sum.sqrt().add_(o.eps()), -rate);
  }

  static void update_rows(const Update& u, double rate) {
    if (u.options.weight_decay() != 0) {
      throw UnsupportedError("Adagrad: weight_decay does not go with sparse gradients");
    }
    const SparseRows rows(u.gradient);
    if (rows.empty()) return;
    u.state.sum().add_(rows.with(rows.values.pow(2)));
    const at::Tensor norm = rows.values_of(u.state.sum()).sqrt_().add_(u.options.eps());
    u.parameter.add_(rows.with(rows.values / norm), -rate);
  }
};

}  // namespace

const OptimizerLayout* adagrad_layout(const torch::optim::Optimizer& optimizer) {
  return layout_if<torch::optim::Adagrad, AdagradLayout>(optimizer);
}

std::shared_ptr<torch::optim::Optimizer> Adagrad::create(std::vector<at::Tensor> parameters) const {
  const OptionChecks check("Adagrad");
  check.not_negative("lr", options_.lr);
  check.not_negative("lr_decay", options_.lr_decay);
  check.not_negative("weight_decay", options_.weight_decay);
  check.not_negative("initial_accumulator_value", options_.initial_accumulator_value);
  check.not_negative("eps", options_.eps);
  return std::make_shared<AdagradOptimizer>(
      each_once(std::move(parameters)),
      torch::optim::AdagradOptions(options_.lr)
          .lr_decay(options_.lr_decay)
          .weight_decay(options_.weight_decay)
          .initial_accumulator_value(options_.initial_accumulator_value)
          .eps(options_.eps));
}

}  // namespace cairn
