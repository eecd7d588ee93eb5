// The optimizers that cairn saves and loads, with PyTorch's and Composer's options and defaults.
#pragma once

#include <array>

#include "cairn/train/optimizer.h"

namespace cairn {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

struct AdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
};

struct AdamWOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
};

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
};

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
};

// Composer's SGD with decoupled weight decay (arXiv:1711.05101): weight_decay is multiplied by
// lr / initial lr, not by lr.
struct DecoupledSGDWOptions {
  double lr = 0.1;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

// Composer's AdamW with decoupled weight decay, likewise.
struct DecoupledAdamWOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 1e-5;
  bool amsgrad = false;
};

// A recipe per optimizer. Cheap to copy; create() may be called several times.
#define CAIRN_OPTIMIZER(Name)                                        \
  class Name final : public OptimizerRecipe {                        \
   public:                                                           \
    explicit Name(Name##Options options = {}) : options_(options) {} \
    std::shared_ptr<torch::optim::Optimizer> create(                 \
        std::vector<at::Tensor> parameters) const override;          \
                                                                     \
   private:                                                          \
    Name##Options options_;                                          \
  }
CAIRN_OPTIMIZER(SGD);
CAIRN_OPTIMIZER(Adam);
CAIRN_OPTIMIZER(AdamW);
CAIRN_OPTIMIZER(RMSprop);
CAIRN_OPTIMIZER(Adagrad);
CAIRN_OPTIMIZER(DecoupledSGDW);
CAIRN_OPTIMIZER(DecoupledAdamW);
#undef CAIRN_OPTIMIZER

}  // namespace cairn
