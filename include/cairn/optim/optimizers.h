// PyTorch's and Composer's optimizers, with their options and defaults, in their order. They
// compute what Python's do, and their states go both ways. Options that only choose how Python
// computes (foreach, capturable, differentiable, fused) are kept from a file, and have no field
// here. An optimizer of your own: cairn/optim/own_optimizer.h.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "cairn/train/optimizer.h"

namespace cairn {

class GroupFields;

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
  bool decoupled_weight_decay = false;  // AdamW's decay (PyTorch 2.7)
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

// Adagrad with windows instead of sums (arXiv:1212.5701).
struct AdadeltaOptions {
  double lr = 1.0;
  double rho = 0.9;
  double eps = 1e-6;
  double weight_decay = 0;
  bool maximize = false;
  void describe(GroupFields& group);
};

// Adam with the largest gradient in place of the second moment (arXiv:1412.6980, section 7).
struct AdamaxOptions {
  double lr = 2e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool maximize = false;
  void describe(GroupFields& group);
};

// Adam with Nesterov's momentum.
struct NAdamOptions {
  double lr = 2e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 4e-3;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  void describe(GroupFields& group);
};

// Adam that begins without its second moment, until that can be relied on (arXiv:1908.03265).
struct RAdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  void describe(GroupFields& group);
};

// SGD that also keeps the average of the weights, from step t0 on ("ax" in its state).
struct ASGDOptions {
  double lr = 1e-2;
  double lambd = 1e-4;
  double alpha = 0.75;
  double t0 = 1e6;
  double weight_decay = 0;
  bool maximize = false;
  void describe(GroupFields& group);
};

// A step of its own for each weight, by the signs of its gradients; for whole batches.
struct RpropOptions {
  double lr = 1e-2;  // the first step
  std::array<double, 2> etas = {0.5, 1.2};
  std::array<double, 2> step_sizes = {1e-6, 50};
  bool maximize = false;
  void describe(GroupFields& group);
};

// Second moments of matrices kept as a row and a column (arXiv:1804.04235), as PyTorch 2.5 has it.
struct AdafactorOptions {
  double lr = 1e-2;
  double beta2_decay = -0.8;
  std::pair<std::optional<double>, double> eps = {std::nullopt, 1e-3};  // nullopt: the dtype's
  double d = 1.0;
  double weight_decay = 0.0;
  bool maximize = false;
  void describe(GroupFields& group);
};

// Adam for sparse gradients, where only the rows that have a gradient are touched. UnsupportedError
// for a dense one.
struct SparseAdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  bool maximize = false;
  void describe(GroupFields& group);
};

// libtorch's. Each step evaluates the batch up to max_eval times, by a closure that fit() gives it:
// the events from before_train_batch to after_train_batch then happen as often. Not with amp_fp16.
struct LBFGSOptions {
  double lr = 1;
  std::int64_t max_iter = 20;
  std::optional<std::int64_t> max_eval = std::nullopt;  // nullopt: max_iter * 5 / 4
  double tolerance_grad = 1e-7;
  double tolerance_change = 1e-9;
  std::int64_t history_size = 100;
  std::optional<std::string> line_search_fn = std::nullopt;  // or "strong_wolfe"
};

// Composer's SGD with decoupled weight decay (arXiv:1711.05101): weight_decay is multiplied by
// lr / initial lr, not by lr.
struct DecoupledSGDWOptions {
  double lr = 0.1;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  static constexpr bool kHasInitialLr = true;
  void describe(GroupFields& group);
};

// Composer's AdamW with decoupled weight decay, likewise.
struct DecoupledAdamWOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 1e-5;
  bool amsgrad = false;
  static constexpr bool kHasInitialLr = true;
  void describe(GroupFields& group);
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
CAIRN_OPTIMIZER(Adadelta);
CAIRN_OPTIMIZER(Adamax);
CAIRN_OPTIMIZER(NAdam);
CAIRN_OPTIMIZER(RAdam);
CAIRN_OPTIMIZER(ASGD);
CAIRN_OPTIMIZER(Rprop);
CAIRN_OPTIMIZER(Adafactor);
CAIRN_OPTIMIZER(SparseAdam);
CAIRN_OPTIMIZER(LBFGS);
CAIRN_OPTIMIZER(DecoupledSGDW);
CAIRN_OPTIMIZER(DecoupledAdamW);
#undef CAIRN_OPTIMIZER

}  // namespace cairn
