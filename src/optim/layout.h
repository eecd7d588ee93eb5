// Python's layout of every optimizer that cairn saves: the keys of a parameter group and of a
// parameter's state, in torch 2.6's order, each written down once for writing (of const objects)
// and for reading (into mutable ones).
//
// A visitor of groups has
//   number(key, double&), flag(key, bool&), betas(key, pair-like&)   options that C++ has, too
//   python_only(key, default)                          options without effect here
//   must_be(key, default)                              options that C++ does not follow
//   must_be_if_present(key, wanted)                    likewise, of newer PyTorch
// and a visitor of states
//   step(key, int64&), tensor(key, Tensor&)            always there
//   tensor_if(condition, key, Tensor&)                 there when the options ask for it
//   tensor_or_none(key, Tensor&)                       None when undefined
#pragma once

#include <torch/torch.h>

#include <memory>
#include <tuple>

#include "cairn/value.h"

#include "optim/decoupled_adamw.h"
#include "optim/decoupled_sgdw.h"
#include "optim/group_extras.h"

namespace cairn {

struct SGDLayout {
  static constexpr const char* kName = "SGD";
  using Optimizer = torch::optim::SGD;
  using Options = torch::optim::SGDOptions;
  using State = torch::optim::SGDParamState;

  static void visit_group(auto& visitor, auto& options) {
    visitor.number("lr", options.lr());
    visitor.number("momentum", options.momentum());
    visitor.number("dampening", options.dampening());
    visitor.number("weight_decay", options.weight_decay());
    visitor.flag("nesterov", options.nesterov());
    visitor.must_be("maximize", false);
    visitor.python_only("foreach", None{});
    visitor.python_only("differentiable", false);
    visitor.python_only("fused", None{});
  }
  static void visit_state(auto& visitor, auto& state, const Options& /*options*/) {
    visitor.tensor_or_none("momentum_buffer", state.momentum_buffer());
  }
  // libtorch takes any state for one with a buffer; PyTorch 1.13 writes None without momentum.
  static bool is_empty(const State& state) { return !state.momentum_buffer().defined(); }
};

// Adam and AdamW differ in the place of "maximize" and "foreach".
template <class OptimizerType, class OptionsType, class StateType>
struct AdamLikeLayout {
  using Optimizer = OptimizerType;
  using Options = OptionsType;
  using State = StateType;

  static void visit_numbers(auto& visitor, auto& options) {
    visitor.number("lr", options.lr());
    visitor.betas("betas", options.betas());
    visitor.number("eps", options.eps());
    visitor.number("weight_decay", options.weight_decay());
    visitor.flag("amsgrad", options.amsgrad());
  }
  static void visit_state(auto& visitor, auto& state, const Options& options) {
    visitor.step("step", state.step());
    visitor.tensor("exp_avg", state.exp_avg());
    visitor.tensor("exp_avg_sq", state.exp_avg_sq());
    visitor.tensor_if(options.amsgrad(), "max_exp_avg_sq", state.max_exp_avg_sq());
  }
};

struct AdamLayout
    : AdamLikeLayout<torch::optim::Adam, torch::optim::AdamOptions, torch::optim::AdamParamState> {
  static constexpr const char* kName = "Adam";
  static void visit_group(auto& visitor, auto& options) {
    visit_numbers(visitor, options);
    visitor.must_be("maximize", false);
    visitor.python_only("foreach", None{});
    visitor.python_only("capturable", false);
    visitor.python_only("differentiable", false);
    visitor.python_only("fused", None{});
    visitor.must_be_if_present("decoupled_weight_decay", false);
  }
};

struct AdamWLayout : AdamLikeLayout<torch::optim::AdamW, torch::optim::AdamWOptions,
                                    torch::optim::AdamWParamState> {
  static constexpr const char* kName = "AdamW";
  static void visit_group(auto& visitor, auto& options) {
    visit_numbers(visitor, options);
    visitor.python_only("foreach", None{});
    visitor.must_be("maximize", false);
    visitor.python_only("capturable", false);
    visitor.python_only("differentiable", false);
    visitor.python_only("fused", None{});
    visitor.must_be_if_present("decoupled_weight_decay", true);
  }
};

struct RMSpropLayout {
  static constexpr const char* kName = "RMSprop";
  using Optimizer = torch::optim::RMSprop;
  using Options = torch::optim::RMSpropOptions;
  using State = torch::optim::RMSpropParamState;

  static void visit_group(auto& visitor, auto& options) {
    visitor.number("lr", options.lr());
    visitor.number("momentum", options.momentum());
    visitor.number("alpha", options.alpha());
    visitor.number("eps", options.eps());
    visitor.flag("centered", options.centered());
    visitor.number("weight_decay", options.weight_decay());
    visitor.python_only("capturable", false);
    visitor.python_only("foreach", None{});
    visitor.must_be("maximize", false);
    visitor.python_only("differentiable", false);
  }
  static void visit_state(auto& visitor, auto& state, const Options& options) {
    visitor.step("step", state.step());
    visitor.tensor("square_avg", state.square_avg());
    visitor.tensor_if(options.momentum() > 0, "momentum_buffer", state.momentum_buffer());
    visitor.tensor_if(options.centered(), "grad_avg", state.grad_avg());
  }
};

struct AdagradLayout {
  static constexpr const char* kName = "Adagrad";
  using Optimizer = torch::optim::Adagrad;
  using Options = torch::optim::AdagradOptions;
  using State = torch::optim::AdagradParamState;

  static void visit_group(auto& visitor, auto& options) {
    visitor.number("lr", options.lr());
    visitor.number("lr_decay", options.lr_decay());
    visitor.number("eps", options.eps());
    visitor.number("weight_decay", options.weight_decay());
    visitor.number("initial_accumulator_value", options.initial_accumulator_value());
    visitor.python_only("foreach", None{});
    visitor.must_be("maximize", false);
    visitor.python_only("differentiable", false);
    visitor.python_only("fused", None{});
  }
  static void visit_state(auto& visitor, auto& state, const Options& /*options*/) {
    visitor.step("step", state.step());
    visitor.tensor("sum", state.sum());
  }
  // Adagrad's state is there from its construction on, and its step() counts on that.
  static std::unique_ptr<State> initial_state(const at::Tensor& parameter, const Options& options) {
    auto state = std::make_unique<State>();
    state->step(0);
    state->sum(at::full_like(parameter, options.initial_accumulator_value()));
    return state;
  }
};

struct DecoupledSGDWLayout {
  static constexpr const char* kName = "DecoupledSGDW";
  using Optimizer = DecoupledSGDWOptimizer;
  using Options = DecoupledSGDWGroup;
  using State = DecoupledSGDWState;

  static void visit_group(auto& visitor, auto& options) {
    visitor.number("lr", options.values.lr);
    visitor.number("momentum", options.values.momentum);
    visitor.number("dampening", options.values.dampening);
    visitor.number("weight_decay", options.values.weight_decay);
    visitor.flag("nesterov", options.values.nesterov);
    visitor.python_only("maximize", false);  // Composer's ignores it, too
    visitor.python_only("foreach", None{});
    visitor.python_only("differentiable", false);
    visitor.python_only("fused", None{});
  }
  static void visit_state(auto& visitor, auto& state, const Options& /*options*/) {
    visitor.tensor_or_none("momentum_buffer", state.momentum_buffer);
  }
};

struct DecoupledAdamWLayout {
  static constexpr const char* kName = "DecoupledAdamW";
  using Optimizer = DecoupledAdamWOptimizer;
  using Options = DecoupledAdamWGroup;
  using State = DecoupledAdamWState;

  static void visit_group(auto& visitor, auto& options) {
    visitor.number("lr", options.values.lr);
    visitor.betas("betas", options.values.betas);
    visitor.number("eps", options.values.eps);
    visitor.number("weight_decay", options.values.weight_decay);
    visitor.flag("amsgrad", options.values.amsgrad);
    visitor.python_only("foreach", None{});
    visitor.python_only("maximize", false);  // Composer's ignores these, too
    visitor.python_only("capturable", false);
    visitor.python_only("differentiable", false);
    visitor.python_only("fused", None{});
  }
  static void visit_state(auto& visitor, auto& state, const Options& options) {
    visitor.step("step", state.step);
    visitor.tensor("exp_avg", state.exp_avg);
    visitor.tensor("exp_avg_sq", state.exp_avg_sq);
    visitor.tensor_if(options.values.amsgrad, "max_exp_avg_sq", state.max_exp_avg_sq);
  }
};

}  // namespace cairn
