// Composer's DecoupledAdamW as an optimizer of libtorch.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "cairn/optim/optimizers.h"

#include "optim/group_extras.h"

namespace cairn {

struct DecoupledAdamWGroup final : torch::optim::OptimizerOptions, GroupExtras {
  explicit DecoupledAdamWGroup(const DecoupledAdamWOptions& options) : values(options) {
    initial_lr = options.lr;
  }
  std::unique_ptr<torch::optim::OptimizerOptions> clone() const override {
    return std::make_unique<DecoupledAdamWGroup>(*this);
  }
  double get_lr() const override { return values.lr; }
  void set_lr(const double lr) override { values.lr = lr; }

  DecoupledAdamWOptions values;
};

struct DecoupledAdamWState final : torch::optim::OptimizerParamState {
  std::unique_ptr<torch::optim::OptimizerParamState> clone() const override {
    return std::make_unique<DecoupledAdamWState>(*this);
  }

  std::int64_t step = 0;
  at::Tensor exp_avg;
  at::Tensor exp_avg_sq;
  at::Tensor max_exp_avg_sq;  // with amsgrad only
};

class DecoupledAdamWOptimizer final : public torch::optim::Optimizer {
 public:
  DecoupledAdamWOptimizer(std::vector<at::Tensor> parameters, const DecoupledAdamWOptions& options);
  at::Tensor step(LossClosure closure = nullptr) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;
};

}  // namespace cairn
