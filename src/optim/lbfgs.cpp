// LBFGS: libtorch's class.
#include <torch/torch.h>

#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/parameters.h"

#include "optim/option_checks.h"

namespace cairn {

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
  return std::make_shared<torch::optim::LBFGS>(unique_tensors(std::move(parameters)), options);
}

}  // namespace cairn
