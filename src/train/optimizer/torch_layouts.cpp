#include "train/optimizer/torch_layouts.h"

#include <array>
#include <deque>

namespace cairn {
namespace {

using SGDState = torch::optim::SGDParamState;
using RMSpropState = torch::optim::RMSpropParamState;
using AdagradState = torch::optim::AdagradParamState;
using LBFGSState = torch::optim::LBFGSParamState;

class SGDLayout final : public LayoutOf<torch::optim::SGDOptions, SGDState> {
  std::string python_name() const override { return "SGD"; }
  void describe_group(GroupFields& group, torch::optim::SGDOptions& options) const override {
    group.number("lr", options.lr());
    group.number("momentum", options.momentum(), 0);
    group.number("dampening", options.dampening(), 0);
    group.number("weight_decay", options.weight_decay(), 0);
    group.flag("nesterov", options.nesterov());
    group.must_be("maximize", false);
    group.python_only("foreach", None{});
    group.python_only("differentiable", false);
    group.python_only("fused", None{});
  }
  void describe_state(StateFields& state, SGDState& values,
                      const torch::optim::SGDOptions& /*options*/) const override {
    state.tensor("momentum_buffer", values.momentum_buffer(), {.or_none = true});
  }
  // libtorch assumes that any state has a buffer. Without momentum, PyTorch 1.13 writes None as the
  // buffer.
  bool is_empty(const torch::optim::OptimizerParamState& state) const override {
    return !static_cast<const SGDState&>(state).momentum_buffer().defined();
  }
};

class RMSpropLayout final : public LayoutOf<torch::optim::RMSpropOptions, RMSpropState> {
  std::string python_name() const override { return "RMSprop"; }
  void describe_group(GroupFields& group, torch::optim::RMSpropOptions& options) const override {
    group.number("lr", options.lr());
    group.number("momentum", options.momentum(), 0);
    group.number("alpha", options.alpha());
    group.number("eps", options.eps());
    group.flag("centered", options.centered());
    group.number("weight_decay", options.weight_decay(), 0);
    group.python_only("capturable", false);
    group.python_only("foreach", None{});
    group.must_be("maximize", false);
    group.python_only("differentiable", false);
  }
  void describe_state(StateFields& state, RMSpropState& values,
                      const torch::optim::RMSpropOptions& options) const override {
    state.step("step", values.step());
    state.tensor("square_avg", values.square_avg());
    state.tensor("momentum_buffer", values.momentum_buffer(), {.required = options.momentum() > 0});
    state.tensor("grad_avg", values.grad_avg(), {.required = options.centered()});
  }
};

class AdagradLayout final : public LayoutOf<torch::optim::AdagradOptions, AdagradState> {
  std::string python_name() const override { return "Adagrad"; }
  void describe_group(GroupFields& group, torch::optim::AdagradOptions& options) const override {
    group.number("lr", options.lr());
    group.number("lr_decay", options.lr_decay(), 0);
    group.number("eps", options.eps());
    group.number("weight_decay", options.weight_decay(), 0);
    group.number("initial_accumulator_value", options.initial_accumulator_value(), 0);
    group.python_only("foreach", None{});
    group.must_be("maximize", false);
    group.python_only("differentiable", false);
    group.python_only("fused", None{});
  }
  void describe_state(StateFields& state, AdagradState& values,
                      const torch::optim::AdagradOptions& /*options*/) const override {
    state.step("step", values.step());
    state.tensor("sum", values.sum());
  }
  // Adagrad has its state from construction on, and its step() relies on that.
  std::unique_ptr<torch::optim::OptimizerParamState> initial_state(
      const at::Tensor& parameter, const torch::optim::OptimizerOptions& options) const override {
    auto state = std::make_unique<AdagradState>();
    state->step(0);
    state->sum(
        first_adagrad_sum(parameter, as<const torch::optim::AdagradOptions>(options, "options")));
    return state;
  }
};

// --- LBFGS: one state for all parameters, kept with the first parameter. The state's vectors are
// as long as all parameters together.

// An optional text: c10::optional in libtorch 1.13, std::optional in newer versions.
using SearchName =
    std::remove_cvref_t<decltype(std::declval<torch::optim::LBFGSOptions&>().line_search_fn())>;

void visit_list(StateFields& state, const char* key, std::deque<at::Tensor>& list, bool is_there,
                const Dims& shape) {
  std::optional<std::vector<at::Tensor>> items;
  if (is_there) items.emplace(list.begin(), list.end());
  state.tensors(key, items, {.shape = shape});
  if (items) list.assign(items->begin(), items->end());
}

class LBFGSLayout final : public LayoutOf<torch::optim::LBFGSOptions, LBFGSState> {
  std::string python_name() const override { return "LBFGS"; }
  bool needs_closure() const override { return true; }
  void describe_group(GroupFields& group, torch::optim::LBFGSOptions& options) const override {
    group.number("lr", options.lr(), 1);
    group.whole("max_iter", options.max_iter());
    std::int64_t max_eval = options.max_eval().value_or(options.max_iter() * 5 / 4);
    group.whole("max_eval", max_eval);
    options.max_eval(max_eval);
    group.number("tolerance_grad", options.tolerance_grad());
    group.number("tolerance_change", options.tolerance_change());
    group.whole("history_size", options.history_size());
    std::optional<std::string> search;
    if (options.line_search_fn()) search = *options.line_search_fn();
    group.text_or_none("line_search_fn", search);
    options.line_search_fn(search ? SearchName(*search) : SearchName());
    group.must_be_if_present("maximize", false);
  }
  // Before its first iteration with a nonzero gradient, LBFGS has only the counts.
  void describe_state(StateFields& state, LBFGSState& values,
                      const torch::optim::LBFGSOptions& /*options*/) const override {
    std::int64_t size = 0;
    for (const at::Tensor& parameter : state.group())
      size += parameter.numel();
    const bool began = values.d().defined();
    state.count("func_evals", values.func_evals());
    state.count("n_iter", values.n_iter());
    describe_al(state, values);
    state.tensor("d", values.d(), {.required = false, .shape = {{size}}});
    visit_number(state, "t", values.t(), began);
    visit_list(state, "old_dirs", values.old_dirs(), began, {size});
    visit_list(state, "old_stps", values.old_stps(), began, {size});
    visit_list(state, "ro", values.ro(), began, {});
    state.scalar("H_diag", values.H_diag(), /*required=*/false);
    state.tensor("prev_flat_grad", values.prev_flat_grad(),
                 {.required = false, .or_none = began, .shape = {{size}}});
    visit_number(state, "prev_loss", values.prev_loss(), began);
  }

  static void describe_al(StateFields& state, LBFGSState& values) {
    std::optional<std::vector<at::Tensor>> al;
    if (values.al()) al = *values.al();
    state.tensors("al", al, {.shape = Dims()});
    if (al) values.al(*al);
  }
  static void visit_number(StateFields& state, const char* key, double& value, bool is_there) {
    std::optional<double> number;
    if (is_there) number = value;
    state.number(key, number);
    value = number.value_or(0);
  }
};

template <class Optimizer, class Layout>
const OptimizerLayout* layout_if(const torch::optim::Optimizer& optimizer) {
  static const Layout layout;
  return dynamic_cast<const Optimizer*>(&optimizer) != nullptr ? &layout : nullptr;
}

constexpr std::array kTorchLayouts = {
    layout_if<torch::optim::SGD, SGDLayout>,
    layout_if<torch::optim::Adam, TorchAdamLayout>,
    layout_if<torch::optim::AdamW, TorchAdamWLayout>,
    layout_if<torch::optim::RMSprop, RMSpropLayout>,
    layout_if<torch::optim::Adagrad, AdagradLayout>,
    layout_if<torch::optim::LBFGS, LBFGSLayout>,
};

}  // namespace

const OptimizerLayout* find_torch_layout(const torch::optim::Optimizer& optimizer) {
  for (const auto& layout : kTorchLayouts) {
    if (const OptimizerLayout* found = layout(optimizer)) return found;
  }
  return nullptr;
}

at::Tensor first_adagrad_sum(const at::Tensor& parameter,
                             const torch::optim::AdagradOptions& options) {
  at::Tensor sum = at::empty_like(parameter, at::MemoryFormat::Preserve);
  (sum.is_complex() ? at::view_as_real(sum) : sum).fill_(options.initial_accumulator_value());
  return sum;
}

}  // namespace cairn
