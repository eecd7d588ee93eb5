#include "io/machine_usage.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <sstream>

namespace cairn {
namespace {

// The lines "Name:   123 kB" of a file, in bytes.
std::map<std::string, std::uint64_t> sizes_in(const std::string& path) {
  std::map<std::string, std::uint64_t> sizes;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    std::istringstream rest(line.substr(colon + 1));
    std::uint64_t number = 0;
    std::string unit;
    if (rest >> number >> unit && unit == "kB") sizes[line.substr(0, colon)] = number * 1024;
  }
  return sizes;
}

double rounded_percent(double part, double whole) {
  return whole <= 0
             ? 0
             : static_cast<double>(static_cast<std::int64_t>(part / whole * 1000 + 0.5)) / 10;
}

}  // namespace

std::optional<ProcessMemory> process_memory(const std::string& root) {
  const auto sizes = sizes_in(root + "/proc/self/status");
  const auto now = sizes.find("VmRSS");
  const auto peak = sizes.find("VmHWM");
  if (now == sizes.end() || peak == sizes.end()) return std::nullopt;
  return ProcessMemory{.resident_bytes = now->second, .peak_resident_bytes = peak->second};
}

// "cpu  user nice system idle iowait irq softirq steal guest guest_nice". The last two are also in
// user and nice.
std::optional<CpuTimes> cpu_times(const std::string& root) {
  std::ifstream file(root + "/proc/stat");
  std::string name;
  std::array<std::uint64_t, 8> ticks{};
  if (!(file >> name) || name != "cpu") return std::nullopt;
  for (std::uint64_t& each : ticks) {
    if (!(file >> each)) return std::nullopt;
  }
  CpuTimes times;
  for (const std::uint64_t each : ticks)
    times.total += each;
  times.busy = times.total - ticks[3] - ticks[4];
  return times;
}

Figures memory_figures(const std::string& root) {
  const auto sizes = sizes_in(root + "/proc/meminfo");
  const auto size = [&sizes](const char* name) {
    const auto found = sizes.find(name);
    return found == sizes.end() ? 0.0 : static_cast<double>(found->second);
  };
  if (!sizes.contains("MemTotal")) return {};
  const double total = size("MemTotal");
  const double available = size("MemAvailable");
  const double free = size("MemFree");
  const double cached = size("Cached") + size("SReclaimable");
  const double used = total - free - cached - size("Buffers");
  return {{"total", total},
          {"available", available},
          {"percent", rounded_percent(total - available, total)},
          {"used", used < 0 ? total - free : used},
          {"free", free},
          {"active", size("Active")},
          {"inactive", size("Inactive")},
          {"buffers", size("Buffers")},
          {"cached", cached},
          {"shared", size("Shmem")},
          {"slab", size("Slab")}};
}

// "free" is for users, and "percent" of the space that users have. Root's reserve is in neither.
Figures disk_figures() {
  struct statvfs info = {};
  if (statvfs("/", &info) != 0) return {};
  const auto block = static_cast<double>(info.f_frsize);
  const double total = static_cast<double>(info.f_blocks) * block;
  const double used = static_cast<double>(info.f_blocks - info.f_bfree) * block;
  const double free = static_cast<double>(info.f_bavail) * block;
  return {{"total", total},
          {"used", used},
          {"free", free},
          {"percent", rounded_percent(used, used + free)}};
}

// Two lines of headings, then "eth0: bytes packets errs drop fifo frame compressed multicast", and
// the same eight for sending.
Figures network_figures(const std::string& root) {
  std::ifstream file(root + "/proc/net/dev");
  std::array<double, 16> sums{};
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    std::istringstream rest(line.substr(colon + 1));
    for (double& sum : sums) {
      double number = 0;
      rest >> number;
      sum += number;
    }
  }
  return {{"bytes_sent", sums[8]},   {"bytes_recv", sums[0]}, {"packets_sent", sums[9]},
          {"packets_recv", sums[1]}, {"errin", sums[2]},      {"errout", sums[10]},
          {"dropin", sums[3]},       {"dropout", sums[11]}};
}

}  // namespace cairn
