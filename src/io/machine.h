// The resources of the machine that this process may use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cairn {

// Limits of the process and of its control groups (version 1 and 2); nullopt: no limit.
struct MachineLimits {
  double cpus = 1;  // processors that the process may run on, or its control group's share
  std::optional<std::uint64_t> memory_bytes = std::nullopt;
  std::optional<std::uint64_t> open_files = std::nullopt;
  std::optional<std::uint64_t> file_bytes = std::nullopt;  // size of one file
};
MachineLimits machine_limits();

// How many files this process may have open (RLIMIT_NOFILE): the limit, and the maximum to which
// the process may raise it.
struct OpenFileLimit {
  std::uint64_t soft = 0;
  std::uint64_t hard = 0;
};
OpenFileLimit open_file_limit();               // throws StorageError
void set_soft_open_file_limit(std::uint64_t);  // throws StorageError

// The name of this machine on its network.
std::string node_name();

// The number of this process; whether a process with that number lives on this machine.
std::int64_t process_id();
bool is_process_alive(std::int64_t pid);

// The processors that this process may run on: "ff" for the first eight. Two processes with an
// equal text share processors. Empty if unknown.
std::string usable_processors();

// Whether a terminal controls this process, wherever its streams go.
bool has_controlling_terminal();

// The name of the program that started this process; empty if unknown.
std::string parent_program();

// The tightest limits of the control groups that "<root>/proc/self/cgroup" names, and of their
// parents, below "<root>/sys/fs/cgroup". A limit that cannot be read counts as none.
struct GroupLimits {
  std::optional<double> cpus = std::nullopt;
  std::optional<std::uint64_t> memory_bytes = std::nullopt;
};
GroupLimits group_limits(const std::string& root);

}  // namespace cairn
