// Adafactor. Step k, for a parameter w with gradient g (arXiv:1804.04235, as PyTorch 2.5's Python
// computes it); n is the number of elements of w. If the option eps has no first value, eps1 is the
// epsilon of w's dtype.
//
//  1. rho = min(lr, 1 / sqrt(k));  a = max(eps2, |w| / sqrt(n)) * rho;  b = k^beta2_decay.
//  2. w = w * (1 - lr * weight_decay).
//  3. For a matrix (the last two dimensions): r = lerp(r, mean of g^2 along each row, b),
//     c = lerp(c, mean along each column, b), v = r c / max(mean of r, eps1);
//     otherwise v = lerp(v, g^2, b), and v is kept.
//  4. u = g / sqrt(max(v, eps1^2));  w = w - a / max(1, |u| / (d * sqrt(n))) * u.
#include <torch/torch.h>

#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/optim/own_optimizer.h"

#include "optim/optimizer_step.h"
#include "optim/option_checks.h"

namespace cairn {

void AdafactorOptions::describe(GroupFields& group) {
  group.number("lr", lr);
  group.number("beta2_decay", beta2_decay);
  group.pair("eps", eps);
  group.number("d", d);
  group.number("weight_decay", weight_decay);
  group.python_only("foreach", None{});
  group.newer_flag("maximize", maximize);
}

namespace {

// The parameter's shape with 1 for one dimension.
std::vector<std::int64_t> shape_without(const at::Tensor& parameter, std::int64_t dim) {
  std::vector<std::int64_t> shape = parameter.sizes().vec();
  shape[shape.size() + static_cast<std::size_t>(dim)] = 1;  // from the end: -1, -2
  return shape;
}

// torch.finfo(dtype).eps: the distance from 1 to the next number.
double epsilon_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return 0x1p-52;
    case at::kHalf:
      return 0x1p-10;
    case at::kBFloat16:
      return 0x1p-7;
    default:
      return 0x1p-23;
  }
}

struct AdafactorState {
  std::int64_t step = 0;
  at::Tensor row_var = {};
  at::Tensor col_var = {};
  at::Tensor variance = {};

  void describe(StateFields& state, const AdafactorOptions& /*options*/) {
    const at::Tensor& parameter = state.parameter();
    state.step("step", step);
    if (parameter.dim() > 1) {
      state.tensor("row_var", row_var, {.shape = shape_without(parameter, -1)});
      state.tensor("col_var", col_var, {.shape = shape_without(parameter, -2)});
    } else {
      state.tensor("variance", variance);
    }
  }
};

class AdafactorOptimizer final : public OptimizerOf<AdafactorOptions, AdafactorState> {
 public:
  using OptimizerOf::OptimizerOf;
  std::string python_name() const override { return "Adafactor"; }

 private:
  void update(const Update& u) override {
    const Options& o = u.options;
    refuse_complex(u.parameter);
    ++u.state.step;
    const auto step = static_cast<double>(u.state.step);
    const double rate = std::min(o.lr, 1 / std::sqrt(step));
    const double size = std::sqrt(static_cast<double>(u.parameter.numel()));
    const double alpha = std::max(o.eps.second, norm_of(u.parameter) / size) * rate;
    const double eps1 = o.eps.first.value_or(epsilon_of(u.parameter.scalar_type()));
    if (o.weight_decay != 0) u.parameter.mul_(1 - o.lr * o.weight_decay);
    const double weight = std::pow(step, o.beta2_decay);
    const at::Tensor estimate =
        u.parameter.dim() > 1 ? estimate_matrix(u, weight, eps1) : estimate_vector(u, weight);
    const at::Tensor change = estimate.clamp_(eps1 * eps1).rsqrt_().mul_(u.gradient);
    u.parameter.add_(change, -alpha / std::max(1.0, norm_of(change) / (size * o.d)));
  }

  static double norm_of(const at::Tensor& tensor) { return tensor.norm(2).item<double>(); }

  // The gradient's mean square along `dim`.
  static at::Tensor mean_square(const at::Tensor& gradient, std::int64_t dim) {
    return gradient.norm(2, {dim}, /*keepdim=*/true)
        .square_()
        .div_(static_cast<double>(gradient.size(dim)));
  }

  // The estimates v of step 3. The caller may change the result.
  static at::Tensor estimate_matrix(const Update& u, double weight, double eps1) {
    State& s = u.state;
    if (!s.row_var.defined()) {
      s.row_var = at::zeros(shape_without(u.gradient, -1), u.gradient.options());
      s.col_var = at::zeros(shape_without(u.gradient, -2), u.gradient.options());
    }
    s.row_var.lerp_(mean_square(u.gradient, -1), weight);
    s.col_var.lerp_(mean_square(u.gradient, -2), weight);
    return at::matmul(s.row_var, s.col_var).div_(s.row_var.mean(-2, /*keepdim=*/true).clamp_(eps1));
  }
  static at::Tensor estimate_vector(const Update& u, double weight) {
    prepare(u.gradient, {&u.state.variance});
    u.state.variance.lerp_(u.gradient.square(), weight);
    return u.state.variance.clone();
  }

  static void refuse_complex(const at::Tensor& parameter) {
    if (parameter.is_complex()) {
      throw UnsupportedError("Adafactor does not support complex parameters, as in Python");
    }
  }
};

}  // namespace

std::shared_ptr<torch::optim::Optimizer> Adafactor::create(
    std::vector<at::Tensor> parameters) const {
  const OptionChecks check("Adafactor");
  check.not_negative("lr", options_.lr);
  check.between("beta2_decay", options_.beta2_decay, {-HUGE_VAL, 0});
  check.not_negative("eps", options_.eps.first.value_or(0));
  check.not_negative("eps", options_.eps.second);
  check.between("d", options_.d, {1, HUGE_VAL});
  check.not_negative("weight_decay", options_.weight_decay);
  return RecipeOf<AdafactorOptimizer>(options_).create(std::move(parameters));
}

}  // namespace cairn
