// MemoryMonitor: logs how much memory training takes (composer/callbacks/memory_monitor.py).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "cairn/export.h"
#include "cairn/train/callback.h"
#include "cairn/train/empty_braces.h"

namespace CAIRN_PUBLIC cairn {

struct MemoryMonitorOptions {
  // The entries to log: figures, and the names under which they are logged. The figures are those
  // of torch.cuda.memory_stats(), such as "allocated_bytes.all.peak", and the host's
  // "resident_bytes.host.current" and "resident_bytes.host.peak". nullopt: the table below.
  std::optional<std::map<std::string, std::string>> memory_keys = std::nullopt;
  // In every batch whose number is a multiple of this, also logs the mean, the least and the most
  // over the ranks of the job, as <name>_avg, <name>_min and <name>_max. Waits for all ranks.
  // nullopt: never.
  std::optional<std::int64_t> dist_aggregate_batch_interval = std::nullopt;
};

// Logs these figures below memory/, after the backward passes of every batch.
//
// - current_resident_mem, peak_resident_mem: of this process, in the host's RAM
//
// If the model is on a GPU, also those of this process's memory there.
//
// - current_allocated_mem, peak_allocated_mem: held by tensors
// - current_active_mem, peak_active_mem: the same, and what kernels still use
// - current_inactive_mem, peak_inactive_mem: in pieces that the driver cannot have back
// - current_reserved_mem, peak_reserved_mem: taken from the driver
// - alloc_retries: how often the cache was given back to go on
// Sizes are in gigabytes (1e9 bytes), with five digits. Nothing waits for the GPU. The GPU's
// figures need libtorch 2.9 or newer; a line at the start says so with an older one.
//
// (Composer has no figures of the host, and logs nothing for a model on the CPU.)
class MemoryMonitor final : public Callback {
 public:
  explicit MemoryMonitor(MemoryMonitorOptions options = {});  // UsageError
  explicit MemoryMonitor(EmptyBraces)  // MemoryMonitor({.dist_aggregate_batch_interval = 100})
      : MemoryMonitor(MemoryMonitorOptions()) {}

  std::string name() const override { return "MemoryMonitor"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  bool may_change_batch() const override { return false; }
  void init(State& state, Logger& logger) override;
  void after_train_batch(State& state, Logger& logger) override;

 private:
  MemoryMonitorOptions options_;
};

}  // namespace cairn
