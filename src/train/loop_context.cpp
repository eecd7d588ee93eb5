#include "train/loop_context.h"

#include <fmt/format.h>
#include <torch/torch.h>

namespace cairn {

void compute_metrics(LoopContext& context, const std::string& label, const Metrics& metrics) {
  if (metrics.empty()) return;
  const torch::NoGradGuard no_grad;
  Dict values;
  Dict logged;
  for (const auto& [name, metric] : metrics) {
    const double value = metric->compute().item<double>();
    values.set(name, value);
    if (context.logging()) logged.set(fmt::format("metrics/{}/{}", label, name), value);
  }
  context.state.metric_values.set(label, std::move(values));
  if (context.logging()) context.logger.log_metrics(logged);
}

EvalMode::EvalMode(torch::nn::Module& module)
    : module_(module), was_training_(module.is_training()) {
  if (was_training_) module_.eval();
}

EvalMode::~EvalMode() {
  if (was_training_) module_.train();
}

}  // namespace cairn
