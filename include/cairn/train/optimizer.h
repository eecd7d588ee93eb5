// Optimizers for TrainerOptions: a recipe, `AdamW({.lr = 1e-3})`, which the Trainer applies to the
// model's parameters, or an optimizer that you made yourself, as a shared pointer.
// cairn/optim/ has the recipes.
#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cairn/value.h"

namespace torch::optim {
class Optimizer;
}
namespace torch::nn {
class Module;
}

namespace cairn {

// How to make an optimizer, before its parameters are known: options, checked when it is made.
// Derived from by the classes of cairn/optim/optimizers.h and by RecipeOf, for your own.
class OptimizerRecipe {
 public:
  virtual ~OptimizerRecipe() = default;
  // UsageError for options out of range.
  virtual std::shared_ptr<torch::optim::Optimizer> create(
      std::vector<at::Tensor> parameters) const = 0;
};

namespace detail {

template <class Pointer>
concept PointsToOptimizer = std::convertible_to<Pointer, std::shared_ptr<torch::optim::Optimizer>>;

}  // namespace detail

// What TrainerOptions::optimizers takes. A recipe gets every parameter of the model, trainable or
// not (what has no gradient is not stepped); for parameter groups, or for a part of the model, make
// the optimizer yourself from cairn::parameters().
class OptimizerHandle {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  OptimizerHandle() = default;
  template <class Recipe>
  requires std::derived_from<std::remove_cvref_t<Recipe>, OptimizerRecipe> OptimizerHandle(
      Recipe&& recipe)
      : recipe_(std::make_shared<std::remove_cvref_t<Recipe>>(std::forward<Recipe>(recipe))) {}
  template <detail::PointsToOptimizer Pointer>
  OptimizerHandle(Pointer optimizer) : optimizer_(std::move(optimizer)) {}
  // The compiler shows the line of the deleted constructor.
  // clang-format off
  template <class Other>
  requires(!std::derived_from<std::remove_cvref_t<Other>, OptimizerRecipe> &&
           !std::derived_from<std::remove_cvref_t<Other>, OptimizerHandle> &&
           !detail::PointsToOptimizer<Other>)
  OptimizerHandle(Other&&) = delete;  // AdamW({.lr = 1e-3}); torch's by std::make_shared<...>()
  // clang-format on
  // NOLINTEND(google-explicit-constructor)

  explicit operator bool() const { return recipe_ || optimizer_; }
  bool is_recipe() const { return recipe_ != nullptr; }
  // The optimizer itself, or the recipe applied to `parameters`.
  std::shared_ptr<torch::optim::Optimizer> create(std::vector<at::Tensor> parameters) const;

 private:
  std::shared_ptr<OptimizerRecipe> recipe_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
};

// Python's class name: "AdamW", "DecoupledSGDW". UnsupportedError for a class that does not say how
// it is saved: cairn/optim/own_optimizer.h.
std::string optimizer_name(const torch::optim::Optimizer& optimizer);

// Whether optimizer_state_dict() can save it.
bool can_be_saved(const torch::optim::Optimizer& optimizer);

// Whether step() has to be given a closure, as LBFGS's.
bool needs_closure(const torch::optim::Optimizer& optimizer);

// Python's state, keyed by parameter name: {"state": {name: {...}}, "param_groups": [{...,
// "params": [names]}]} (torch 2.6's keys). Tensors are views of the live ones: valid while those
// live, and changed by the next step. The names are those of `module`; UsageError for a parameter
// that is none of its.
Value optimizer_state_dict(const torch::optim::Optimizer& optimizer,
                           const torch::nn::Module& module);

// Takes state written by any PyTorch since 1.7 or by cairn, keyed by name or by position; learning
// rates and other options come with it. Everything is checked first: MismatchError lists what does
// not fit, and nothing is changed then; so is UnsupportedError thrown for options that libtorch's
// optimizers do not follow (maximize=True). References to a group's options become invalid.
void load_optimizer_state_dict(torch::optim::Optimizer& optimizer, const torch::nn::Module& module,
                               const Value& state);

// The learning rate of each parameter group. A scheduler sets it anew at its next step.
std::vector<double> learning_rates(const torch::optim::Optimizer& optimizer);
void set_learning_rates(torch::optim::Optimizer& optimizer, const std::vector<double>& rates);

// Python's group["initial_lr"], which schedulers multiply: the current rate, kept from the first
// call on (or from a load), saved with the group. References to a group's options become invalid.
std::vector<double> initial_learning_rates(torch::optim::Optimizer& optimizer);

}  // namespace cairn
