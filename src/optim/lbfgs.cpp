// LBFGS: libtorch's. Its state is one for all parameters, kept with the first: vectors that are as
// long as all of them together.
#include <torch/torch.h>

#include <deque>

#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/parameters.h"

#include "optim/option_checks.h"
#include "optim/torch_layouts.h"

namespace cairn {
namespace {

using LBFGSState = torch::optim::LBFGSParamState;
// An optional text: of c10 in libtorch 1.13, of std in newer ones.
using SearchName =
    std::remove_cvref_t<decltype(std::declval<torch::optim::LBFGSOptions&>().line_search_fn())>;

void visit_list(StateFields& state, const char* key, std::deque<at::Tensor>& list, bool is_there,
                const std::vector<std::int64_t>& shape) {
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
  // Before its first iteration, that of a gradient of zero, there are only the counts.
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
    state.tensors("al", al, {.shape = std::vector<std::int64_t>()});
    if (al) values.al(*al);
  }
  static void visit_number(StateFields& state, const char* key, double& value, bool is_there) {
    std::optional<double> number;
    if (is_there) number = value;
    state.number(key, number);
    value = number.value_or(0);
  }
};

}  // namespace

const OptimizerLayout* lbfgs_layout(const torch::optim::Optimizer& optimizer) {
  return layout_if<torch::optim::LBFGS, LBFGSLayout>(optimizer);
}

std::shared_ptr<torch::optim::Optimizer> LBFGS::create(std::vector<at::Tensor> parameters) const {
  const OptionChecks check("LBFGS");
  check.not_negative("lr", options_.lr);
  check.between("max_iter", static_cast<double>(options_.max_iter), {1, HUGE_VAL});
  check.between("history_size", static_cast<double>(options_.history_size), {1, HUGE_VAL});
  if (options_.line_search_fn && options_.line_search_fn != "strong_wolfe") {
    throw UsageError("LBFGS: line_search_fn must be \"strong_wolfe\" or none, found \"" +
                     *options_.line_search_fn + "\"");
  }
  auto options = torch::optim::LBFGSOptions(options_.lr)
                     .max_iter(options_.max_iter)
                     .tolerance_grad(options_.tolerance_grad)
                     .tolerance_change(options_.tolerance_change)
                     .history_size(options_.history_size);
  if (options_.max_eval) options.max_eval(*options_.max_eval);
  if (options_.line_search_fn) options.line_search_fn(*options_.line_search_fn);
  return std::make_shared<torch::optim::LBFGS>(each_once(std::move(parameters)), options);
}

}  // namespace cairn
