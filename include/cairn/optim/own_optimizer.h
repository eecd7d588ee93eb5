// An optimizer of your own: its options, the state that it keeps of a parameter, and the update.
//
//   struct LionOptions {
//     double lr = 1e-4;
//     std::array<double, 2> betas = {0.9, 0.99};
//     double weight_decay = 0;
//     void describe(cairn::GroupFields& group) {
//       group.number("lr", lr);
//       group.pair("betas", betas);
//       group.number("weight_decay", weight_decay);
//     }
//   };
//   struct LionState {
//     at::Tensor exp_avg;
//     void describe(cairn::StateFields& state, const LionOptions&) {
//       state.tensor("exp_avg", exp_avg);
//     }
//   };
//   class Lion final : public cairn::OptimizerOf<LionOptions, LionState> {
//    public:
//     using OptimizerOf::OptimizerOf;
//     std::string python_name() const override { return "Lion"; }
//
//    private:
//     void update(const Update& u) override {
//       auto& m = u.state.exp_avg;
//       if (!m.defined()) m = at::zeros_like(u.parameter);
//       const auto [beta1, beta2] = u.options.betas;
//       u.parameter.mul_(1 - u.options.lr * u.options.weight_decay);
//       u.parameter.add_(m.lerp(u.gradient, 1 - beta1).sign(), -u.options.lr);
//       m.lerp_(u.gradient, 1 - beta2);
//     }
//   };
//
//   .optimizers = cairn::RecipeOf<Lion>({.lr = 1e-4}),
//
// Lion is saved, loaded and resumed like cairn's own optimizers, which are made in the same way.
// Python's Lion loads this state if its state_dict() has the same names.
#pragma once

#include <ATen/core/grad_mode.h>

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "cairn/export.h"
#include "cairn/train/empty_braces.h"
#include "cairn/train/optimizer.h"
#include "cairn/train/optimizer_layout.h"
#include "cairn/train/parameters.h"

namespace CAIRN_PUBLIC cairn {

// Options in the form in which libtorch keeps them in a parameter group.
template <class Options>
struct GroupOf final : torch::optim::OptimizerOptions, GroupExtras {
  explicit GroupOf(const Options& options) : values(options) {
    if constexpr (kHasInitialLr) initial_lr = options.lr;
  }
  static constexpr bool kHasInitialLr = requires { Options::kHasInitialLr; };
  std::unique_ptr<torch::optim::OptimizerOptions> clone() const override {
    return std::make_unique<GroupOf>(*this);
  }
  double get_lr() const override { return values.lr; }
  void set_lr(const double lr) override { values.lr = lr; }

  Options values;
};

template <class State>
struct StateOf final : torch::optim::OptimizerParamState {
  std::unique_ptr<torch::optim::OptimizerParamState> clone() const override {
    return std::make_unique<StateOf>(*this);
  }

  State values;
};

// Calls the closure with gradients enabled and returns its loss; undefined without a closure.
at::Tensor closure_loss(const torch::optim::Optimizer::LossClosure& closure);

// Returns the gradient for a step of `parameter`; undefined: the parameter is not stepped.
struct GradientOptions {
  bool maximize = false;
  bool takes_sparse = false;  // if false, throws UnsupportedError for a sparse gradient
};
at::Tensor gradient_of(const at::Tensor& parameter, const torch::optim::Optimizer& optimizer,
                       const GradientOptions& options);

// The place where an optimizer keeps a parameter's state; null before the first step.
std::unique_ptr<torch::optim::OptimizerParamState>& state_slot(torch::optim::Optimizer& optimizer,
                                                               const at::Tensor& parameter);

// A group's "initial_lr", which schedulers multiply; the current rate if there is none.
double initial_lr_of(const torch::optim::OptimizerOptions& options);

// Throws UsageError: a group has options of another class than the optimizer's.
[[noreturn]] void refuse_options(const torch::optim::Optimizer& optimizer,
                                 const torch::optim::OptimizerOptions& options);
[[noreturn]] void refuse_archive(const OptimizerLayout& layout);

// A class of optimizers whose step is written as the update of one parameter. OptimizerOf derives
// from it. You can also derive from StepOf to give another step to an optimizer class of libtorch.
// The result keeps that class's options, states and archives, so code that casts to libtorch's
// types still works:
//
//   class MyAdam final : public cairn::StepOf<torch::optim::Adam, torch::optim::AdamOptions,
//                                             torch::optim::AdamParamState> {
//    public:
//     using StepOf::StepOf;
//
//    private:
//     void update(const Update& u) override { ... u.options.lr(), u.state.exp_avg() ... }
//   };
//
// OptionsType and StateType are libtorch's, or the Options and State that GroupOf and StateOf wrap.
// Options that derive from OptimizerOptions must override get_lr(), since a step reads the rate and
// libtorch's own get_lr() throws. If the options have `bool maximize`, gradients are negated.
template <class Base, class OptionsType, class StateType>
class StepOf : public Base {
 public:
  using Base::Base;
  using Options = OptionsType;
  using State = StateType;

  // Skips parameters without a gradient, as Python does.
  at::Tensor step(torch::optim::Optimizer::LossClosure closure = nullptr) final {
    at::Tensor loss = closure_loss(closure);
    const at::NoGradGuard no_grad;
    for (auto& group : this->param_groups()) {
      const auto* kept = dynamic_cast<const KeptOptions*>(&group.options());
      if (kept == nullptr) refuse_options(*this, group.options());
      const Options& options = values_of<Options>(*kept);
      const double initial_lr = initial_lr_of(*kept);
      GradientOptions wanted{.takes_sparse = takes_sparse_gradients()};
      if constexpr (requires(Options & o) { o.maximize = true; })
        wanted.maximize = options.maximize;
      KeptState forgotten;
      std::vector<Update> updates;
      updates.reserve(group.params().size());
      for (const at::Tensor& parameter : group.params()) {
        at::Tensor gradient = gradient_of(parameter, *this, wanted);
        if (!gradient.defined()) continue;
        KeptState& kept_state = needs_state(options) ? state_of(parameter) : forgotten;
        updates.push_back(
            {parameter, std::move(gradient), values_of<State>(kept_state), options, initial_lr});
      }
      update_all(updates);
    }
    return loss;
  }

 protected:
  struct Update {
    const at::Tensor& parameter;  // to be changed in place
    at::Tensor gradient;          // shared with the parameter: do not change it
    State& state;                 // default-constructed before the first update
    const Options& options;
    double initial_lr;  // what schedulers multiply; the current rate without a scheduler
  };
  // Steps one parameter, with gradient recording disabled.
  virtual void update(const Update& u) = 0;
  // Steps the parameters of one group that have a gradient. Override it to step several of them in
  // one pass over their memory.
  virtual void update_all(const std::vector<Update>& updates) {
    for (const Update& u : updates)
      update(u);
  }
  virtual bool takes_sparse_gradients() const { return false; }
  // If false, no state is kept: updates share one, which is forgotten after the step.
  virtual bool needs_state(const Options& /*options*/) const { return true; }

 private:
  using KeptOptions = std::conditional_t<std::is_base_of_v<torch::optim::OptimizerOptions, Options>,
                                         Options, GroupOf<Options>>;
  using KeptState = std::conditional_t<std::is_base_of_v<torch::optim::OptimizerParamState, State>,
                                       State, StateOf<State>>;

  KeptState& state_of(const at::Tensor& parameter) {
    auto& slot = state_slot(*this, parameter);
    if (!slot) slot = std::make_unique<KeptState>();
    return static_cast<KeptState&>(*slot);
  }

  template <class Values, class Kept>
  static auto& values_of(Kept& kept) {
    if constexpr (std::is_same_v<const Values, const Kept>) {
      return kept;
    } else {
      return kept.values;
    }
  }
};

// OptionsType: an aggregate with `double lr` and `void describe(GroupFields&)`. If it has a
// constant kHasInitialLr, groups have "initial_lr" from their construction on. StateType: an
// aggregate with `void describe(StateFields&, const OptionsType&)`.
template <class OptionsType, class StateType>
class OptimizerOf : public StepOf<torch::optim::Optimizer, OptionsType, StateType>,
                    public LayoutOf<GroupOf<OptionsType>, StateOf<StateType>> {
  static_assert(
      requires(OptionsType & options, GroupFields& group) {
        options.lr = 0.5;
        options.describe(group);
      },
      "OptimizerOf: the options have a field `double lr` and a method describe(GroupFields&)");
  static_assert(
      requires(StateType & state, StateFields& fields, const OptionsType& options) {
        state.describe(fields, options);
      },
      "OptimizerOf: the state has a method describe(StateFields&, const Options&)");
  using Step = StepOf<torch::optim::Optimizer, OptionsType, StateType>;

 public:
  using Options = OptionsType;
  using State = StateType;
  using Group = GroupOf<Options>;

  explicit OptimizerOf(std::vector<at::Tensor> parameters, const Options& options = {})
      : Step(std::move(parameters), std::make_unique<Group>(options)) {}

  // torch::save and torch::load throw UnsupportedError; use cairn::optimizer_state_dict() instead.
  void save(torch::serialize::OutputArchive& /*archive*/) const final { refuse_archive(*this); }
  void load(torch::serialize::InputArchive& /*archive*/) final { refuse_archive(*this); }

 private:
  bool has_initial_lr() const final { return Group::kHasInitialLr; }
  void describe_group(GroupFields& group, Group& options) const final {
    options.values.describe(group);
  }
  void describe_state(StateFields& state, StateOf<State>& values,
                      const Group& options) const final {
    values.values.describe(state, options.values);
  }
};

// A recipe for TrainerOptions' `.optimizers` that makes an `Optimizer` with these options. The
// Trainer makes the optimizer when it has the model's parameters.
template <class Optimizer>
class RecipeOf final : public OptimizerRecipe {
 public:
  explicit RecipeOf(typename Optimizer::Options options = {}) : options_(std::move(options)) {}
  explicit RecipeOf(EmptyBraces)  // RecipeOf<Mine>({...})
      : RecipeOf(typename Optimizer::Options()) {}
  std::shared_ptr<torch::optim::Optimizer> create(
      std::vector<at::Tensor> parameters) const override {
    return std::make_shared<Optimizer>(unique_tensors(std::move(parameters)), options_);
  }

 private:
  typename Optimizer::Options options_;
};

}  // namespace cairn
