// How much of the machine is in use now: /proc, and the root file system.
//
// All functions read below `root`, which is empty except in tests. A figure that the kernel does
// not give is absent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

// Memory of this process that is in RAM: now, and the most so far.
struct ProcessMemory {
  std::uint64_t resident_bytes = 0;
  std::uint64_t peak_resident_bytes = 0;
  bool operator==(const ProcessMemory&) const = default;
};
std::optional<ProcessMemory> process_memory(const std::string& root = "");

// Time of all processors since the machine started, in ticks.
struct CpuTimes {
  std::uint64_t busy = 0;
  std::uint64_t total = 0;
  bool operator==(const CpuTimes&) const = default;
};
std::optional<CpuTimes> cpu_times(const std::string& root = "");

// The figures of psutil, under psutil's names, in psutil's order. Sizes are in bytes, "percent" is
// from 0 to 100.
using Figures = std::vector<std::pair<std::string, double>>;

// virtual_memory(): total, available, percent, used, free, active, inactive, buffers, cached,
// shared, slab.
Figures memory_figures(const std::string& root = "");
// disk_usage("/"): total, used, free, percent. Empty if the file system does not answer.
Figures disk_figures();
// net_io_counters(): bytes_sent, bytes_recv, packets_sent, packets_recv, errin, errout, dropin,
// dropout. Sums over all interfaces, since the machine started.
Figures network_figures(const std::string& root = "");

}  // namespace cairn
