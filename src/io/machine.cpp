#include "io/machine.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <limits>
#include <thread>
#include <vector>

#include "io/file.h"
#include "io/file_descriptor.h"
#include "io/file_error.h"

namespace cairn {
namespace {

// Above this, version 1 of control groups means "no limit".
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;

void tighten(auto& limit, const auto& value) { limit = limit ? std::min(*limit, value) : value; }

// Reads the numbers at the start of a file, up to "max" or anything else that is no number.
std::vector<double> numbers_in(const std::string& path) {
  std::ifstream file(path);
  std::vector<double> numbers;
  for (double number = 0; file >> number;) {
    numbers.push_back(number);
  }
  return numbers;
}

void add_memory(const std::string& path, GroupLimits& limits) {
  const auto numbers = numbers_in(path);
  if (numbers.empty() || numbers[0] < 0 || numbers[0] >= static_cast<double>(kNoLimit)) return;
  tighten(limits.memory_bytes, static_cast<std::uint64_t>(numbers[0]));
}

void add_cpus(double quota, double period, GroupLimits& limits) {
  if (quota > 0 && period > 0) tighten(limits.cpus, quota / period);
}

void add_version_2(const std::string& group, GroupLimits& limits) {
  add_memory(group + "/memory.max", limits);
  const auto cpu = numbers_in(group + "/cpu.max");  // "max 100000" gives none
  if (cpu.size() == 2) add_cpus(cpu[0], cpu[1], limits);
}

void add_version_1(const std::string& controller, const std::string& group, GroupLimits& limits) {
  if (controller == "memory") add_memory(group + "/memory.limit_in_bytes", limits);
  if (controller != "cpu") return;
  const auto quota = numbers_in(group + "/cpu.cfs_quota_us");
  const auto period = numbers_in(group + "/cpu.cfs_period_us");
  if (!quota.empty() && !period.empty()) add_cpus(quota[0], period[0], limits);
}

std::optional<std::uint64_t> resource_limit(decltype(RLIMIT_NOFILE) resource) {
  rlimit limit = {};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

double usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace

GroupLimits group_limits(const std::string& root) {
  GroupLimits limits;
  const std::string mount = root + "/sys/fs/cgroup";
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "4:cpu,cpuacct:/a/b" or "0::/a/b"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    // Adds the limits of the group, and those of each group around it.
    for (std::string group = line.substr(second + 1);; group = parent_path(group)) {
      const std::string below = group == "/" ? "" : group;
      if (controllers.empty()) add_version_2(mount + below, limits);
      std::string rest = controllers;
      while (!rest.empty()) {
        const std::string controller = rest.substr(0, rest.find(','));
        rest.erase(0, controller.size() + 1);
        add_version_1(controller, join_path(mount, controller) + below, limits);
      }
      if (group.size() <= 1) break;
    }
  }
  return limits;
}

MachineLimits machine_limits() {
  const GroupLimits groups = group_limits("");
  MachineLimits limits{.cpus = usable_cpus(),
                       .memory_bytes = groups.memory_bytes,
                       .open_files = resource_limit(RLIMIT_NOFILE),
                       .file_bytes = resource_limit(RLIMIT_FSIZE)};
  if (groups.cpus) limits.cpus = std::min(limits.cpus, *groups.cpus);
  return limits;
}

OpenFileLimit open_file_limit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) throw_storage_error(errno, "cannot get RLIMIT_NOFILE");
  return {.soft = limit.rlim_cur, .hard = limit.rlim_max};
}

void set_soft_open_file_limit(std::uint64_t soft) {
  const rlimit limit = {.rlim_cur = soft, .rlim_max = open_file_limit().hard};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) throw_storage_error(errno, "cannot set RLIMIT_NOFILE");
}

std::string node_name() {
  utsname names{};
  return uname(&names) == 0 ? names.nodename : "";
}

std::int64_t process_id() { return getpid(); }

bool is_process_alive(std::int64_t pid) {
  constexpr std::int64_t kMax = std::numeric_limits<pid_t>::max();
  if (pid <= 0 || pid > kMax) return false;
  return kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM;
}

std::string usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return "";
  std::string digits;  // the last processors first
  for (int first = CPU_SETSIZE - 4; first >= 0; first -= 4) {
    int digit = 0;
    for (int i = 0; i < 4; ++i)
      digit += CPU_ISSET(first + i, &set) ? 1 << i : 0;
    if (digit != 0 || !digits.empty()) digits += "0123456789abcdef"[digit];
  }
  return digits;
}

bool has_controlling_terminal() {
  const FileDescriptor terminal(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC));
  return terminal.is_open();
}

std::string parent_program() {
  std::ifstream file("/proc/" + std::to_string(getppid()) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

}  // namespace cairn
