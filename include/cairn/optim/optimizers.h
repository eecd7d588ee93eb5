// PyTorch's and Composer's optimizers, with their options and defaults, in their order. They
// compute what Python's do, and their states go both ways. Options that only choose how Python
// computes (foreach, capturable, differentiable, fused) are kept from a file, and have no field
// here. An optimizer of your own: cairn/optim/own_optimizer.h.
//
// Common to all: `lr` is what schedulers multiply; `eps` keeps divisions finite, and is worth
// raising (1e-4) for low precision; `weight_decay` pulls weights towards 0, in the gradient unless
// it is called decoupled; `maximize` climbs. UsageError for values out of range, when the optimizer
// is made. Memory: the states that are named below, each of the size of the parameters.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "cairn/train/empty_braces.h"
#include "cairn/train/optimizer.h"

namespace cairn {

class GroupFields;

// Stochastic gradient descent. State: none; one with momentum.
struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;   // 0.9 is usual
  double dampening = 0;  // takes this part off what a gradient adds to the momentum
  double weight_decay = 0;
  // Looks ahead along the momentum; needs momentum, and no dampening.
  bool nesterov = false;
};

// Steps by the ratio of the mean gradient to its size, so that lr is about the step of each weight
// (arXiv:1412.6980). State: two, three with amsgrad. For weight decay take AdamW.
struct AdamOptions {
  double lr = 1e-3;
  // How much of the mean gradient, and of its mean square, is kept from step to step.
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  // Divides by the largest mean square so far, so that steps do not grow again.
  bool amsgrad = false;
  bool decoupled_weight_decay = false;  // AdamW's decay (PyTorch 2.7)
};

// Adam with decoupled weight decay: weights shrink by lr * weight_decay, whatever their gradients
// (arXiv:1711.05101). What most networks are trained with. State: as Adam.
struct AdamWOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;  // 0.1 for large models
  bool amsgrad = false;
};

// Steps by the gradient divided by its mean size. State: one; one more each with momentum and when
// centered.
struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;  // of the mean square, kept from step to step
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;  // divides by the deviation from the mean gradient instead
};

// Divides by the root of the sum of all squares so far: steps only get smaller, and rare features
// keep large ones. State: one.
struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;  // lr / (1 + steps * lr_decay)
  double weight_decay = 0;
  // Of every sum; above 0 it damps the first steps.
  double initial_accumulator_value = 0;
  double eps = 1e-10;
};

// Adagrad with windows instead of sums (arXiv:1212.5701): there is no lr to choose. State: two.
struct AdadeltaOptions {
  double lr = 1.0;   // times what it computes
  double rho = 0.9;  // of both windows, kept from step to step
  double eps = 1e-6;
  double weight_decay = 0;
  bool maximize = false;
  void describe(GroupFields& group);
};

// Adam with the largest gradient in place of the second moment (arXiv:1412.6980, section 7): less
// sensitive to single large gradients. State: two.
struct AdamaxOptions {
  double lr = 2e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool maximize = false;
  void describe(GroupFields& group);
};

// Adam with Nesterov's momentum. State: two, and a number each.
struct NAdamOptions {
  double lr = 2e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 4e-3;  // how fast the momentum grows to betas[0]
  bool decoupled_weight_decay = false;
  bool maximize = false;
  void describe(GroupFields& group);
};

// Adam that begins without its second moment, until that can be relied on (arXiv:1908.03265): in
// place of a warmup. State: two.
struct RAdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  void describe(GroupFields& group);
};

// SGD that also keeps the average of the weights, from step t0 on ("ax" in its state). The model
// holds the weights themselves: for evaluating and saving averages, EMA. State: one.
struct ASGDOptions {
  double lr = 1e-2;
  // Decay of the weights and, with alpha, of lr: lr / (1 + lambd * lr * step)^alpha.
  double lambd = 1e-4;
  double alpha = 0.75;
  double t0 = 1e6;
  double weight_decay = 0;
  bool maximize = false;
  void describe(GroupFields& group);
};

// A step of its own for each weight, by the signs of its gradients; for whole batches, as the noise
// of small ones turns signs. State: two.
struct RpropOptions {
  double lr = 1e-2;  // the first step
  // What a step is multiplied by when the sign changed, and when it did not.
  std::array<double, 2> etas = {0.5, 1.2};
  std::array<double, 2> step_sizes = {1e-6, 50};  // the smallest and the largest
  bool maximize = false;
  void describe(GroupFields& group);
};

// Second moments of matrices kept as a row and a column (arXiv:1804.04235), as PyTorch 2.5 has it.
// For models whose states do not fit the memory: that of a matrix is a row and a column.
struct AdafactorOptions {
  double lr = 1e-2;  // in proportion to the size of the weights; 1 / sqrt(step) where that is less
  // Of the mean square 1 - step^beta2_decay is kept from step to step: the more the later.
  double beta2_decay = -0.8;
  // Added to the squares; the least size that weights are taken to have.
  std::pair<std::optional<double>, double> eps = {std::nullopt, 1e-3};  // nullopt: the dtype's
  double d = 1.0;  // updates of a larger root mean square are scaled down to it
  double weight_decay = 0.0;
  bool maximize = false;
  void describe(GroupFields& group);
};

// Adam for sparse gradients, where only the rows that have a gradient are touched: for embeddings
// that were made sparse. UnsupportedError for a dense one. State: two.
struct SparseAdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  bool maximize = false;
  void describe(GroupFields& group);
};

// libtorch's. Each step evaluates the batch up to max_eval times, by a closure that fit() gives it:
// the events from before_train_batch to after_train_batch then happen as often. Not with amp_fp16.
// For small models and whole batches. State: 2 * history_size + 3.
struct LBFGSOptions {
  double lr = 1;                                        // with a line search: where it begins
  std::int64_t max_iter = 20;                           // of one step
  std::optional<std::int64_t> max_eval = std::nullopt;  // nullopt: max_iter * 5 / 4
  // A step ends early below these: the largest gradient, and the change of weights or loss.
  double tolerance_grad = 1e-7;
  double tolerance_change = 1e-9;
  std::int64_t history_size = 100;  // of past updates, of which curvature is learned
  std::optional<std::string> line_search_fn = std::nullopt;  // or "strong_wolfe"
};

// Composer's SGD with decoupled weight decay (arXiv:1711.05101): weight_decay is multiplied by
// lr / initial lr, not by lr. So it is smaller than PyTorch's by the factor of the initial lr, and
// stays right when that is changed. State: as SGD.
struct DecoupledSGDWOptions {
  double lr = 0.1;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  static constexpr bool kHasInitialLr = true;
  void describe(GroupFields& group);
};

// Composer's AdamW with decoupled weight decay, likewise: AdamW's 1e-2 with lr 1e-3 is 1e-5 here.
// State: as Adam.
struct DecoupledAdamWOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 1e-5;
  bool amsgrad = false;
  static constexpr bool kHasInitialLr = true;
  void describe(GroupFields& group);
};

// A recipe per optimizer: SGD(SGDOptions), Adam(AdamOptions), ..., each with defaults. Cheap to
// copy; create() may be called several times, and each time makes an optimizer that owns its state.
// The compiler shows the line of a class whose options are not written as its comment says.
#define CAIRN_OPTIMIZER(Name)                                        \
  class Name final : public OptimizerRecipe {                        \
   public:                                                           \
    explicit Name(Name##Options options = {}) : options_(options) {} \
    explicit Name(EmptyBraces) : Name(Name##Options()) {}            \
    std::shared_ptr<torch::optim::Optimizer> create(                 \
        std::vector<at::Tensor> parameters) const override;          \
                                                                     \
   private:                                                          \
    Name##Options options_;                                          \
  }
CAIRN_OPTIMIZER(SGD);             // SGD({.lr = 1e-3})
CAIRN_OPTIMIZER(Adam);            // Adam({.lr = 1e-3})
CAIRN_OPTIMIZER(AdamW);           // AdamW({.lr = 1e-3})
CAIRN_OPTIMIZER(RMSprop);         // RMSprop({.lr = 1e-3})
CAIRN_OPTIMIZER(Adagrad);         // Adagrad({.lr = 1e-3})
CAIRN_OPTIMIZER(Adadelta);        // Adadelta({.lr = 1e-3})
CAIRN_OPTIMIZER(Adamax);          // Adamax({.lr = 1e-3})
CAIRN_OPTIMIZER(NAdam);           // NAdam({.lr = 1e-3})
CAIRN_OPTIMIZER(RAdam);           // RAdam({.lr = 1e-3})
CAIRN_OPTIMIZER(ASGD);            // ASGD({.lr = 1e-3})
CAIRN_OPTIMIZER(Rprop);           // Rprop({.lr = 1e-3})
CAIRN_OPTIMIZER(Adafactor);       // Adafactor({.lr = 1e-3})
CAIRN_OPTIMIZER(SparseAdam);      // SparseAdam({.lr = 1e-3})
CAIRN_OPTIMIZER(LBFGS);           // LBFGS({.lr = 1})
CAIRN_OPTIMIZER(DecoupledSGDW);   // DecoupledSGDW({.lr = 1e-3})
CAIRN_OPTIMIZER(DecoupledAdamW);  // DecoupledAdamW({.lr = 1e-3})
#undef CAIRN_OPTIMIZER

}  // namespace cairn
