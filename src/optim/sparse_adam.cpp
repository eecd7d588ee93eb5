// SparseAdam. Step k, for the rows of a parameter w that are in the sparse gradient g
// (arXiv:1412.6980, as PyTorch's Python computes it). All other rows and their moments do not
// change:
//
//  1. m = m + (g - m) * (1 - beta1);  v = v + (g^2 - v) * (1 - beta2).
//  2. w = w - lr * sqrt(1 - beta2^k) / (1 - beta1^k) * m / (sqrt(v) + eps).
#include <torch/torch.h>

#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/optim/own_optimizer.h"

#include "optim/optimizer_step.h"
#include "optim/option_checks.h"

namespace cairn {

void SparseAdamOptions::describe(GroupFields& group) {
  group.number("lr", lr);
  group.pair("betas", betas);
  group.number("eps", eps);
  group.newer_flag("maximize", maximize);
}

namespace {

struct SparseAdamState {
  std::int64_t step = 0;
  at::Tensor exp_avg = {};
  at::Tensor exp_avg_sq = {};

  void describe(StateFields& state, const SparseAdamOptions& /*options*/) {
    state.count("step", step);
    state.tensor("exp_avg", exp_avg);
    state.tensor("exp_avg_sq", exp_avg_sq);
  }
};

class SparseAdamOptimizer final : public OptimizerOf<SparseAdamOptions, SparseAdamState> {
 public:
  using OptimizerOf::OptimizerOf;
  std::string python_name() const override { return "SparseAdam"; }

 private:
  bool takes_sparse_gradients() const override { return true; }

  void update(const Update& u) override {
    if (!u.gradient.is_sparse()) {
      throw UnsupportedError("SparseAdam does not support dense gradients; use Adam");
    }
    const Options& o = u.options;
    State& s = u.state;
    const auto [beta1, beta2] = o.betas;
    prepare(u.parameter, {&s.exp_avg, &s.exp_avg_sq});
    ++s.step;
    const SparseRows rows(u.gradient);
    if (rows.empty()) return;
    const at::Tensor old_avg = rows.values_of(s.exp_avg);
    const at::Tensor change = rows.values.sub(old_avg).mul_(1 - beta1);
    s.exp_avg.add_(rows.with(change));
    const at::Tensor old_sq = rows.values_of(s.exp_avg_sq);
    const at::Tensor change_sq = rows.values.pow(2).sub_(old_sq).mul_(1 - beta2);
    s.exp_avg_sq.add_(rows.with(change_sq));
    const at::Tensor direction =
        change.add(old_avg).div_(change_sq.add(old_sq).sqrt_().add_(o.eps));
    const double rate = o.lr * std::sqrt(1 - power(beta2, s.step)) / (1 - power(beta1, s.step));
    u.parameter.add_(rows.with(direction.mul_(-rate)));
  }
};

}  // namespace

std::shared_ptr<torch::optim::Optimizer> SparseAdam::create(
    std::vector<at::Tensor> parameters) const {
  const OptionChecks check("SparseAdam");
  check.positive("lr", options_.lr);
  check.positive("eps", options_.eps);
  check.betas(options_.betas);
  return RecipeOf<SparseAdamOptimizer>(options_).create(std::move(parameters));
}

}  // namespace cairn
