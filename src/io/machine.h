// What this process may use of the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cairn {

// Of the process and the control groups that it is in (version 1 and 2); nullopt: no limit.
struct MachineLimits {
  double cpus = 1;  // that it may run on, or the share that its control group gives it
  std::optional<std::uint64_t> memory_bytes = std::nullopt;
  std::optional<std::uint64_t> open_files = std::nullopt;
  std::optional<std::uint64_t> file_bytes = std::nullopt;  // size of one file
};
MachineLimits machine_limits();

// The tightest limits of the control groups that "<root>/proc/self/cgroup" names, and of the groups
// around them, below "<root>/sys/fs/cgroup". What cannot be read is no limit.
struct GroupLimits {
  std::optional<double> cpus = std::nullopt;
  std::optional<std::uint64_t> memory_bytes = std::nullopt;
};
GroupLimits group_limits(const std::string& root);

}  // namespace cairn
