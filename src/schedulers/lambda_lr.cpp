// Runs a ComposerScheduler as PyTorch's LambdaLR, with one function for all groups.
#include "cairn/schedulers/schedulers.h"
#include "cairn/train/state.h"

#include "schedulers/running.h"

namespace cairn {
namespace {

struct LambdaRule {
  static constexpr const char* kName = "LambdaLR";
  static constexpr bool kDependsOnTime = true;
  const ComposerScheduler* scheduler;
  const State* state;
  double ssr;

  double next(std::int64_t /*step*/, double /*lr*/, double base_lr) const {
    return base_lr * (*scheduler)(*state, ssr);
  }
  void visit(auto& /*visitor*/) const {}
  // PyTorch writes None for functions, which cannot be saved.
  void visit_last(auto& visitor, std::size_t groups) const {
    visitor.constant("lr_lambdas", List(groups, None{}));
  }
};

}  // namespace

std::unique_ptr<RunningScheduler> attach_lambda_lr(const ComposerScheduler& scheduler,
                                                   const State& state,
                                                   torch::optim::Optimizer& optimizer, double ssr) {
  return std::make_unique<Running<LambdaRule>>(optimizer, LambdaRule{&scheduler, &state, ssr});
}

}  // namespace cairn
