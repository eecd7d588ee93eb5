#include "cairn/callbacks/system_metrics_monitor.h"

#include "cairn/train/logger.h"

#include "io/machine_usage.h"

namespace cairn {
namespace {

// Sizes and counts as ints.
void add_figures(Dict& metrics, const std::string& prefix, const Figures& figures) {
  for (const auto& [name, value] : figures) {
    if (name == "percent") {
      metrics.set(prefix + name, value);
    } else {
      metrics.set(prefix + name, static_cast<std::int64_t>(value));
    }
  }
}

}  // namespace

double SystemMetricsMonitor::cpu_percentage() {
  const auto now = cpu_times();
  if (!now) return 0;
  const bool is_first = total_ticks_ == 0;
  const auto busy = static_cast<double>(now->busy - busy_ticks_);
  const auto total = static_cast<double>(now->total - total_ticks_);
  busy_ticks_ = now->busy;
  total_ticks_ = now->total;
  return is_first || total == 0 ? 0 : busy / total * 100;
}

void SystemMetricsMonitor::batch_start(State& /*state*/, Logger& logger) {
  Dict metrics{{"cpu_percentage", cpu_percentage()}};
  add_figures(metrics, "cpu_memory_", memory_figures());
  add_figures(metrics, "disk_memory_", disk_figures());
  add_figures(metrics, "network_", network_figures());
  logger.log_metrics(metrics);
}

void SystemMetricsMonitor::eval_batch_start(State& state, Logger& logger) {
  batch_start(state, logger);
}

void SystemMetricsMonitor::predict_batch_start(State& state, Logger& logger) {
  batch_start(state, logger);
}

}  // namespace cairn
