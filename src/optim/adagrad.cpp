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
#include "cairn/optim/own_optimizer.h"
#include "cairn/train/parameters.h"

#include "optim/optimizer_format.h"
#include "optim/optimizer_step.h"
#include "optim/option_checks.h"
#include "optim/param_state.h"
#include "optim/torch_layouts.h"

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

class AdagradOptimizer final : public torch::optim::Adagrad {
 public:
  using torch::optim::Adagrad::Adagrad;
  at::Tensor step(LossClosure closure = nullptr) override {
    at::Tensor loss = closure_loss(closure);
    const torch::NoGradGuard no_grad;
    for (auto& group : param_groups()) {
      const auto& options = static_cast<const torch::optim::AdagradOptions&>(group.options());
      for (const at::Tensor& parameter : group.params()) {
        const at::Tensor gradient =
            gradient_of(parameter, layout_of(*this), {.takes_sparse = true});
        if (gradient.defined()) update(parameter, gradient, options);
      }
    }
    return loss;
  }

 private:
  void update(const at::Tensor& parameter, const at::Tensor& given,
              const torch::optim::AdagradOptions& o) {
    auto& state = param_state<AdagradState>(*this, parameter);
    // libtorch's constructor gives complex sums no imaginary part.
    if (!state.sum().defined() || state.step() == 0) state.sum(first_sum(parameter, o));
    const double rate = o.lr() / (1 + static_cast<double>(state.step()) * o.lr_decay());
    state.step(state.step() + 1);
    if (given.is_sparse()) return update_rows(parameter, given, state.sum(), {rate, o});
    const at::Tensor gradient = real_view(with_decay(given, parameter, o.weight_decay()));
    const at::Tensor sum = real_view(state.sum());
    sum.addcmul_(gradient, gradient, 1);
    real_view(parameter).addcdiv_(gradient, sum.sqrt().add_(o.eps()), -rate);
  }

  struct Rate {
    double now;
    const torch::optim::AdagradOptions& options;
  };
  static void update_rows(const at::Tensor& parameter, const at::Tensor& given,
                          const at::Tensor& sum, const Rate& rate) {
    if (rate.options.weight_decay() != 0) {
      throw UnsupportedError("Adagrad: weight_decay does not go with sparse gradients");
    }
    const at::Tensor gradient = given.coalesce();
    const at::Tensor values = gradient.values();
    if (values.numel() == 0) return;
    const auto sparse = [&](const at::Tensor& of_values) {
      return at::sparse_coo_tensor(gradient.indices(), of_values, gradient.sizes());
    };
    sum.add_(sparse(values.pow(2)));
    const at::Tensor norm = sum.sparse_mask(gradient)._values().sqrt_().add_(rate.options.eps());
    parameter.add_(sparse(values / norm), -rate.now);
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
