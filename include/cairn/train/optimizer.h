// Optimizers for TrainerOptions. Pass a recipe, `AdamW({.lr = 1e-3})`, which the Trainer applies to
// the model's parameters, or a shared pointer to an optimizer that you made. cairn/optim/ has the
// recipes.
#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cairn/export.h"
#include "cairn/value.h"

namespace torch::optim {
class Optimizer;
}
namespace torch::nn {
class Module;
}

namespace CAIRN_PUBLIC cairn {

// Makes an optimizer once the parameters are known. Holds options, which are checked when the
// optimizer is made. The classes of cairn/optim/optimizers.h derive from it. For your own
// optimizers, RecipeOf derives from it.
class OptimizerRecipe {
 public:
  virtual ~OptimizerRecipe() = default;
  // Throws UsageError for options out of range.
  virtual std::shared_ptr<torch::optim::Optimizer> create(
      std::vector<at::Tensor> parameters) const = 0;
};

namespace detail {

template <class Pointer>
concept PointsToOptimizer = std::convertible_to<Pointer, std::shared_ptr<torch::optim::Optimizer>>;

}  // namespace detail

// The type of TrainerOptions::optimizers. A recipe gets every parameter of the model, trainable or
// not; parameters without a gradient are not stepped. For parameter groups, or for a part of the
// model, make the optimizer yourself from cairn::parameters().
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
  // Returns the optimizer itself, or applies the recipe to `parameters`.
  std::shared_ptr<torch::optim::Optimizer> create(std::vector<at::Tensor> parameters) const;

 private:
  std::shared_ptr<OptimizerRecipe> recipe_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
};

// Python's class name: "AdamW", "DecoupledSGDW". Throws UnsupportedError for a class that does not
// define how it is saved: see cairn/optim/own_optimizer.h.
std::string optimizer_name(const torch::optim::Optimizer& optimizer);

// Whether optimizer_state_dict() can save it.
bool can_be_saved(const torch::optim::Optimizer& optimizer);

// Whether step() needs a closure, like LBFGS.
bool needs_closure(const torch::optim::Optimizer& optimizer);

// Python's state, by parameter name, with torch 2.6's keys: {"state": {name: {...}},
// "param_groups": [{..., "params": [names]}]}. Tensors are views of the live tensors: valid as long
// as the live ones exist, and changed by the next step. The names are those in `module`. Throws
// UsageError for a parameter that is not in `module`.
Value optimizer_state_dict(const torch::optim::Optimizer& optimizer,
                           const torch::nn::Module& module);

// Loads state written by any PyTorch since 1.7 or by cairn, keyed by name or by position, including
// learning rates and other options. Checks everything first, so that an error changes nothing.
// Throws MismatchError, which lists what does not fit, and UnsupportedError for options that
// libtorch's optimizers do not implement (maximize=True). References to a group's options become
// invalid.
void load_optimizer_state_dict(torch::optim::Optimizer& optimizer, const torch::nn::Module& module,
                               const Value& state);

// The learning rate of each parameter group. A scheduler replaces it at its next step.
std::vector<double> learning_rates(const torch::optim::Optimizer& optimizer);
void set_learning_rates(torch::optim::Optimizer& optimizer, const std::vector<double>& rates);

// Python's group["initial_lr"], which schedulers multiply. It is the rate at the first call (or
// from a load), and is saved with the group. References to a group's options become invalid.
std::vector<double> initial_learning_rates(torch::optim::Optimizer& optimizer);

}  // namespace cairn
