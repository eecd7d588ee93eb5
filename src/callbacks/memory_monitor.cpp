#include "cairn/callbacks/memory_monitor.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>

#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"

#include "callbacks/memory_figures.h"
#include "callbacks/model_device.h"
#include "dist/team.h"

namespace cairn {
namespace {

// Composer's names, and two for the host.
std::map<std::string, std::string> default_memory_keys() {
  return {{"resident_bytes.host.current", "current_resident_mem"},
          {"resident_bytes.host.peak", "peak_resident_mem"},
          {"allocated_bytes.all.current", "current_allocated_mem"},
          {"active_bytes.all.current", "current_active_mem"},
          {"inactive_split_bytes.all.current", "current_inactive_mem"},
          {"reserved_bytes.all.current", "current_reserved_mem"},
          {"allocated_bytes.all.peak", "peak_allocated_mem"},
          {"active_bytes.all.peak", "peak_active_mem"},
          {"inactive_split_bytes.all.peak", "peak_inactive_mem"},
          {"reserved_bytes.all.peak", "peak_reserved_mem"},
          {"num_alloc_retries", "alloc_retries"}};
}

// As Composer: gigabytes with five digits.
double gigabytes_of(std::int64_t bytes) {
  return std::stod(fmt::format("{:.5g}", static_cast<double>(bytes) / 1e9));
}

Dict report_of(const std::map<std::string, std::string>& keys, const at::Device& device) {
  const std::map<std::string, std::int64_t> figures = memory_figures_of(device);
  Dict report;
  for (const auto& [figure, name] : keys) {
    const auto found = figures.find(figure);
    if (found == figures.end()) continue;
    if (figure.find("bytes") == std::string::npos) {
      report.set("memory/" + name, found->second);
    } else {
      report.set("memory/" + name, gigabytes_of(found->second));
    }
  }
  return report;
}

// Adds the figures over all ranks. A rank on another kind of device may lack some of them.
void add_over_ranks(Dict& report) {
  std::map<std::string, std::vector<double>> values;
  for (const Value& of_rank : Team::of_job().gather_all(report)) {
    for (const auto& [key, value] : of_rank.as_dict())
      values[key.as_str()].push_back(value.as_float());
  }
  for (const auto& [key, each] : values) {
    double sum = 0;
    for (const double value : each)
      sum += value;
    report.set(key + "_avg", sum / static_cast<double>(each.size()));
    report.set(key + "_min", std::ranges::min(each));
    report.set(key + "_max", std::ranges::max(each));
  }
}

}  // namespace

MemoryMonitor::MemoryMonitor(MemoryMonitorOptions options) : options_(std::move(options)) {
  if (!options_.memory_keys) options_.memory_keys = default_memory_keys();
  const std::set<std::string> known = memory_figure_names();
  for (const auto& [figure, name] : *options_.memory_keys) {
    if (known.contains(figure)) continue;
    throw UsageError("MemoryMonitor: memory_keys has \"" + figure +
                     "\", which is no figure of torch.cuda.memory_stats(), such as "
                     "\"allocated_bytes.all.peak\", and not \"resident_bytes.host.current\" or "
                     "\"resident_bytes.host.peak\"");
  }
  if (options_.dist_aggregate_batch_interval && *options_.dist_aggregate_batch_interval < 1) {
    throw UsageError("MemoryMonitor: dist_aggregate_batch_interval must be at least 1");
  }
}

void MemoryMonitor::init(State& state, Logger& logger) {
  const at::Device device = model_device(state);
  if (device.is_cpu() || has_device_memory_figures(device)) return;
  logger.log_message("warning: MemoryMonitor: this libtorch gives no figures of the memory of " +
                     device.str() + "; only the host's are logged");
}

void MemoryMonitor::after_train_batch(State& state, Logger& logger) {
  Dict report = report_of(*options_.memory_keys, model_device(state));
  const auto& interval = options_.dist_aggregate_batch_interval;
  if (interval && state.timestamp.batch % *interval == 0) add_over_ranks(report);
  logger.log_metrics(report);
}

}  // namespace cairn
