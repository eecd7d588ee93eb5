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

// How many files this process may have open (RLIMIT_NOFILE): the limit, and how far the process may
// raise it.
struct OpenFileLimit {
  std::uint64_t soft = 0;
  std::uint64_t hard = 0;
};
OpenFileLimit open_file_limit();               // StorageError
void set_soft_open_file_limit(std::uint64_t);  // StorageError

// Of this machine, as others know it.
std::string node_name();

// The number of this process, and whether a process of this machine with that number lives.
std::int64_t process_id();
bool is_process_alive(std::int64_t pid);

// Which processors it may run on, "ff" for the first eight: processes that may use the same ones
// share them. Empty where nobody says.
std::string usable_processors();

// Whether somebody sits at a terminal that controls this process, wherever its streams go.
bool has_controlling_terminal();

// The name of the program that started this process; empty where nobody says.
std::string parent_program();

// The tightest limits of the control groups that "<root>/proc/self/cgroup" names, and of the groups
// around them, below "<root>/sys/fs/cgroup". What cannot be read is no limit.
struct GroupLimits {
  std::optional<double> cpus = std::nullopt;
  std::optional<std::uint64_t> memory_bytes = std::nullopt;
};
GroupLimits group_limits(const std::string& root);

}  // namespace cairn
