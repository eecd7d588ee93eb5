// Composer's DecoupledSGDW as an optimizer of libtorch.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "cairn/optim/optimizers.h"

#include "optim/group_extras.h"

namespace cairn {

struct DecoupledSGDWGroup final : torch::optim::OptimizerOptions, GroupExtras {
  explicit DecoupledSGDWGroup(const DecoupledSGDWOptions& options) : values(options) {
    initial_lr = options.lr;
  }
  std::unique_ptr<torch::optim::OptimizerOptions> clone() const override {
    return std::make_unique<DecoupledSGDWGroup>(*this);
  }
  double get_lr() const override { return values.lr; }
  void set_lr(const double lr) override { values.lr = lr; }

  DecoupledSGDWOptions values;
};

struct DecoupledSGDWState final : torch::optim::OptimizerParamState {
  std::unique_ptr<torch::optim::OptimizerParamState> clone() const override {
    return std::make_unique<DecoupledSGDWState>(*this);
  }

  at::Tensor momentum_buffer;  // undefined (Python's None) without momentum
};

class DecoupledSGDWOptimizer final : public torch::optim::Optimizer {
 public:
  DecoupledSGDWOptimizer(std::vector<at::Tensor> parameters, const DecoupledSGDWOptions& options);
  at::Tensor step(LossClosure closure = nullptr) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;
};

}  // namespace cairn
