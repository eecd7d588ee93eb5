#include "cairn/callbacks/lr_monitor.h"

#include "cairn/train/logger.h"
#include "cairn/train/optimizer.h"
#include "cairn/train/state.h"

namespace cairn {

void LRMonitor::batch_end(State& state, Logger& logger) {
  if (!state.optimizer) return;
  const std::string prefix = "lr-" + optimizer_name(*state.optimizer) + "/group";
  const std::vector<double> rates = learning_rates(*state.optimizer);
  Dict metrics;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    metrics.set(prefix + std::to_string(i), rates[i]);
  }
  logger.log_metrics(metrics);
}

}  // namespace cairn
