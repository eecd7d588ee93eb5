// SystemMetricsMonitor: logs how busy the machine is
// (composer/callbacks/system_metrics_monitor.py).
#pragma once

#include <cstdint>
#include <string>

#include "cairn/export.h"
#include "cairn/train/callback.h"

namespace CAIRN_PUBLIC cairn {

// Logs figures of this process's machine under psutil's names, before every batch of training,
// evaluation and prediction.
//
// - cpu_percentage: of all processors, since the figures before; 0 the first time
// - cpu_memory_*: total, available, percent, used, free, active, inactive, buffers, cached,
//  shared, slab
// - disk_memory_*: total, used, free, percent: of the file system of "/"
// - network_*: bytes_sent, bytes_recv, packets_sent, packets_recv, errin, errout, dropin,
//  dropout: of all interfaces, since the machine started
// Sizes are in bytes. In a job on several machines, rank 0's machine is logged. Reading the figures
// takes some 100 microseconds a batch.
//
// Composer's figures of GPUs come from NVIDIA's NVML, which cairn does not use. They are not
// logged, and there is no log_all_data, which concerns them alone.
class SystemMetricsMonitor final : public Callback {
 public:
  std::string name() const override { return "SystemMetricsMonitor"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  bool may_change_batch() const override { return false; }
  void batch_start(State& state, Logger& logger) override;
  void eval_batch_start(State& state, Logger& logger) override;
  void predict_batch_start(State& state, Logger& logger) override;

 private:
  double cpu_percentage();

  // Ticks of all processors at the last batch.
  std::uint64_t busy_ticks_ = 0;
  std::uint64_t total_ticks_ = 0;
};

}  // namespace cairn
