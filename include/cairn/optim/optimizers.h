// PyTorch's and Composer's optimizers, with the same options and defaults in the same order. These
// optimizers compute what Python's do, and Python and cairn load each other's state. Options that
// only choose how Python computes (foreach, capturable, differentiable) have no field here; their
// values from a file are kept. For an optimizer of your own see cairn/optim/own_optimizer.h.
//
// Common to all: schedulers multiply `lr`. `eps` keeps divisions finite; a larger one (1e-4) helps
// in low precision. `weight_decay` pulls weights towards 0, through the gradient unless the
// optimizer's decay is decoupled. `maximize` steps uphill. Values out of range throw UsageError
// when the optimizer is made. `fused` steps all parameters together: on the CPU in one pass over
// their memory, with the same bits as by single operators, and on a GPU by libtorch's operators for
// lists of tensors, where the last bits may differ. It is no part of a checkpoint. Memory: each
// "State" below counts tensors of the parameters' size.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "cairn/export.h"
#include "cairn/train/empty_braces.h"
#include "cairn/train/optimizer.h"

namespace CAIRN_PUBLIC cairn {

class GroupFields;

// Stochastic gradient descent. State: none; one with momentum.
struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;   // 0.9 is usual
  double dampening = 0;  // this fraction of a gradient is not added to the momentum
  double weight_decay = 0;
  // Nesterov's momentum, which looks ahead; requires momentum, and no dampening.
  bool nesterov = false;
  bool fused = true;
};

// Steps by the ratio of the mean gradient to its size, so that each weight moves by about lr
// (arXiv:1412.6980). State: two, or three with amsgrad. Use AdamW for weight decay.
struct AdamOptions {
  double lr = 1e-3;
  // The fractions of the mean gradient, and of its mean square, that are kept from step to step.
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  // Divides by the largest mean square so far, so that steps do not grow again.
  bool amsgrad = false;
  bool decoupled_weight_decay = false;  // AdamW's decay (PyTorch 2.7)
  bool fused = true;
};

// Adam with decoupled weight decay: weights shrink by lr * weight_decay, whatever their gradients
// are (arXiv:1711.05101). The usual choice for most networks. State: as Adam.
struct AdamWOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;  // 0.1 for large models
  bool amsgrad = false;
  bool fused = true;
};

// Steps by the gradient divided by its mean size. State: one; one more with momentum, and one more
// if centered.
struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;  // fraction of the mean square that is kept from step to step
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;  // divides by the deviation from the mean gradient instead
  bool fused = true;
};

// Divides by the root of the sum of all squares so far. Steps only get smaller, and rare features
// keep large steps. State: one.
struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;  // lr / (1 + steps * lr_decay)
  double weight_decay = 0;
  // The start of every sum; above 0 it damps the first steps.
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  bool fused = true;
};

// Adagrad with windows instead of sums (arXiv:1212.5701): there is no lr to choose. State: two.
struct AdadeltaOptions {
  double lr = 1.0;   // multiplies the computed step
  double rho = 0.9;  // fraction of both windows that is kept from step to step
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

// Adam with Nesterov's momentum. State: two, and one number per parameter.
struct NAdamOptions {
  double lr = 2e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 4e-3;  // how fast the momentum grows to betas[0]
  bool decoupled_weight_decay = false;
  bool maximize = false;
  bool fused = true;
  void describe(GroupFields& group);
};

// Adam that starts without its second moment, until this moment is reliable (arXiv:1908.03265).
// Replaces a warmup. State: two.
struct RAdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  bool fused = true;
  void describe(GroupFields& group);
};

// SGD that also keeps the average of the weights, from step t0 on ("ax" in its state). The model
// holds the weights themselves; to evaluate and save averages use EMA. State: one.
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

// A step size for each weight, which follows the signs of its gradients. For training on whole
// batches, since the noise of small ones flips signs. State: two.
struct RpropOptions {
  double lr = 1e-2;  // the first step
  // The factors of a step size after the gradient's sign changed, and after it stayed the same.
  std::array<double, 2> etas = {0.5, 1.2};
  std::array<double, 2> step_sizes = {1e-6, 50};  // the smallest and the largest
  bool maximize = false;
  void describe(GroupFields& group);
};

// Keeps the second moments of a matrix as a row and a column (arXiv:1804.04235), like PyTorch 2.5.
// For models whose optimizer state does not fit the memory. State: for a matrix, a row and a
// column.
struct AdafactorOptions {
  double lr = 1e-2;  // relative to the size of the weights; limited by 1 / sqrt(step)
  // The fraction of the mean square that is kept is 1 - step^beta2_decay, which grows with the
  // steps.
  double beta2_decay = -0.8;
  // The smallest root mean square that gradients, and that weights, are taken to have.
  std::pair<std::optional<double>, double> eps = {std::nullopt, 1e-3};  // nullopt: the dtype's
  double d = 1.0;  // updates with a larger root mean square than d are scaled down to d
  double weight_decay = 0.0;
  bool maximize = false;
  void describe(GroupFields& group);
};

// Adam for sparse gradients: only rows that have a gradient change. For embeddings that were made
// sparse. Throws UnsupportedError for a dense gradient. State: two.
struct SparseAdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  bool maximize = false;
  void describe(GroupFields& group);
};

// libtorch's LBFGS. Each step evaluates the batch up to max_eval times through a closure, which
// fit() passes. The events from before_train_batch to after_train_batch happen at each evaluation.
// Does not work with amp_fp16. For small models and whole batches. State: 2 * history_size + 3.
struct LBFGSOptions {
  double lr = 1;                                        // with a line search: its first step
  std::int64_t max_iter = 20;                           // iterations of one step
  std::optional<std::int64_t> max_eval = std::nullopt;  // nullopt: max_iter * 5 / 4
  // A step ends early when the largest gradient, or the change of weights or loss, is below these
  // tolerances.
  double tolerance_grad = 1e-7;
  double tolerance_change = 1e-9;
  std::int64_t history_size = 100;  // number of past updates from which it estimates the curvature
  std::optional<std::string> line_search_fn = std::nullopt;  // or "strong_wolfe"
};

// Composer's SGD with decoupled weight decay (arXiv:1711.05101): weight_decay is multiplied by lr /
// initial lr, not by lr. So the right value is PyTorch's weight_decay times the initial lr, and
// stays right when lr is changed. State: as SGD.
struct DecoupledSGDWOptions {
  double lr = 0.1;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool fused = true;
  static constexpr bool kHasInitialLr = true;
  void describe(GroupFields& group);
};

// Composer's AdamW with decoupled weight decay as in DecoupledSGDW: AdamW's weight_decay of 1e-2 at
// lr 1e-3 corresponds to 1e-5 in this class. State: as Adam.
struct DecoupledAdamWOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 1e-5;
  bool amsgrad = false;
  bool fused = true;
  static constexpr bool kHasInitialLr = true;
  void describe(GroupFields& group);
};

// A recipe for each optimizer: SGD(SGDOptions), Adam(AdamOptions), ..., with defaults. Cheap to
// copy. Each call of create() makes an optimizer that owns its state. If the options are written in
// a form that does not compile, the compiler shows the line of the class. The comment on that line
// shows the right form.
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
