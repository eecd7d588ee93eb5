#include "checkpoint/names/launch.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "cairn/error.h"

#include "io/machine.h"

namespace cairn {
namespace {

std::optional<Launch>& explicit_launch() {
  static std::optional<Launch> launch;
  return launch;
}

// Reads the launcher's environment variables.
class Variables {
 public:
  explicit Variables(const ReadEnvironment& read) : read_(read) {}

  const char* text(const char* name) const {
    const char* found = read_ ? read_(name) : std::getenv(name);
    return found != nullptr && *found != '\0' ? found : nullptr;
  }
  bool has(const char* name) const { return text(name) != nullptr; }

  std::optional<std::int64_t> number(const char* name) const {
    const char* found = text(name);
    if (found == nullptr) return std::nullopt;
    std::int64_t value = 0;
    const char* const end = found + std::strlen(found);
    const auto [stop, error] = std::from_chars(found, end, value);
    if (error == std::errc() && stop == end && value >= 0) return value;
    throw UsageError("environment variable " + std::string(name) +
                     ": expected a whole number, found \"" + found + "\"");
  }

 private:
  const ReadEnvironment& read_;
};

void check(const Launch& launch, const std::string& rank, const std::string& size) {
  if (launch.world_size < 1) throw UsageError(size + " is 0: there is at least one process");
  if (launch.rank < launch.world_size) return;
  throw UsageError(rank + "=" + std::to_string(launch.rank) + " and " + size + "=" +
                   std::to_string(launch.world_size) + ": ranks count from 0 to " + size + " - 1");
}

Launch of_torchrun(const Variables& variables) {
  Launch launch;
  launch.source = "torchrun's variables";
  launch.world_size = variables.number("WORLD_SIZE").value_or(1);
  const auto rank = variables.number("RANK");
  if (!rank && launch.world_size > 1) {
    throw UsageError("the environment says WORLD_SIZE=" + std::to_string(launch.world_size) +
                     " but no RANK: start the processes with torchrun, srun, mpirun or cairn-run, "
                     "or unset WORLD_SIZE to train in one process");
  }
  launch.rank = rank.value_or(0);
  if (launch.world_size != 1) check(launch, "RANK", "WORLD_SIZE");
  launch.local_rank = variables.number("LOCAL_RANK");
  launch.local_world_size = variables.number("LOCAL_WORLD_SIZE");
  launch.node_rank = variables.number("NODE_RANK");
  if (!launch.node_rank) launch.node_rank = variables.number("GROUP_RANK");
  const char* hosted = variables.text("TORCHELASTIC_USE_AGENT_STORE");
  launch.is_store_hosted = hosted != nullptr && std::string_view(hosted) == "True";
  if (const char* count = variables.text("TORCHELASTIC_RESTART_COUNT")) launch.attempt = count;
  if (const char* run = variables.text("TORCHELASTIC_RUN_ID")) launch.job_id = run;
  return launch;
}

// `list` has the number of tasks of each node, as in "2(x3),1". Returns the number of tasks of node
// `node`; nullopt if the list does not say it.
std::optional<std::int64_t> tasks_of_node(std::string_view list, std::int64_t node) {
  const auto take_number = [&list](std::int64_t& number) {
    const auto [stop, error] = std::from_chars(list.data(), list.data() + list.size(), number);
    if (error != std::errc()) return false;
    list.remove_prefix(static_cast<std::size_t>(stop - list.data()));
    return true;
  };
  for (std::int64_t first = 0; !list.empty();) {
    std::int64_t tasks = 0;
    std::int64_t nodes = 1;
    if (!take_number(tasks)) return std::nullopt;
    if (list.starts_with("(x")) {
      list.remove_prefix(2);
      if (!take_number(nodes) || !list.starts_with(")")) return std::nullopt;
      list.remove_prefix(1);
    }
    if (node < first + nodes) return tasks;
    first += nodes;
    if (list.starts_with(",")) list.remove_prefix(1);
  }
  return std::nullopt;
}

// Returns the first host of a list: "gpu07" for "gpu[07-09,12],login1".
std::string first_host(const std::string& list) {
  const std::size_t end = list.find_first_of("[,");
  if (end == std::string::npos || list[end] == ',') return list.substr(0, end);
  const std::size_t number = list.find_first_of("-,]", end);
  return list.substr(0, end) + list.substr(end + 1, number - end - 1);
}

// Returns a port for the job and step. The port lies below the range from which systems assign free
// ports.
std::int64_t port_of(std::int64_t job, std::int64_t step) {
  constexpr std::int64_t kFirst = 15000;
  constexpr std::int64_t kCount = 15000;
  return kFirst + (job * 31 + step) % kCount;
}

Launch of_slurm(const Variables& variables) {
  Launch launch;
  launch.source = "Slurm's variables";
  launch.rank = variables.number("SLURM_PROCID").value_or(0);
  const auto tasks = variables.number("SLURM_STEP_NUM_TASKS");
  launch.world_size = tasks ? *tasks : variables.number("SLURM_NTASKS").value_or(1);
  check(launch, "SLURM_PROCID", tasks ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS");
  launch.local_rank = variables.number("SLURM_LOCALID");
  launch.node_rank = variables.number("SLURM_NODEID");
  if (const char* by_node = variables.text("SLURM_STEP_TASKS_PER_NODE")) {
    launch.local_world_size = tasks_of_node(by_node, launch.node_rank.value_or(0));
  }
  if (variables.number("SLURM_STEP_NUM_NODES") == 1) {
    launch.master_addr = "127.0.0.1";
    if (!launch.local_world_size) launch.local_world_size = launch.world_size;
  } else if (const char* nodes = variables.text("SLURM_STEP_NODELIST")) {
    launch.master_addr = first_host(nodes);
  }
  if (const auto job = variables.number("SLURM_JOB_ID")) {
    const std::int64_t step = variables.number("SLURM_STEP_ID").value_or(0);
    launch.master_port = port_of(*job, step);
    launch.job_id = "Slurm " + std::to_string(*job) + "." + std::to_string(step);
    // A job that was requeued keeps its number, so the count of restarts is added.
    if (const auto restarts = variables.number("SLURM_RESTART_COUNT")) {
      launch.job_id += ", restart " + std::to_string(*restarts);
    }
  }
  return launch;
}

Launch of_open_mpi(const Variables& variables) {
  Launch launch;
  launch.source = "Open MPI's variables";
  launch.rank = variables.number("OMPI_COMM_WORLD_RANK").value_or(0);
  launch.world_size = variables.number("OMPI_COMM_WORLD_SIZE").value_or(1);
  check(launch, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  if (const char* space = variables.text("PMIX_NAMESPACE")) {
    launch.job_id = std::string("Open MPI ") + space;
  }
  launch.local_rank = variables.number("OMPI_COMM_WORLD_LOCAL_RANK");
  launch.local_world_size = variables.number("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (launch.local_world_size != launch.world_size)
    return launch;  // in this case MASTER_ADDR must name the address
  launch.node_rank = 0;
  launch.master_addr = "127.0.0.1";
  // PMIX_NAMESPACE is a number, with the application's number after a point. In newer versions, the
  // variable is a text.
  if (const char* space = variables.text("PMIX_NAMESPACE")) {
    std::int64_t job = 0;
    const auto [stop, error] = std::from_chars(space, space + std::strlen(space), job);
    if (error != std::errc() || stop == space || job < 0) {
      job = 0;
      for (const char letter : std::string_view(space))
        job = (job * 131 + static_cast<unsigned char>(letter)) % 1'000'000'007;
    }
    launch.master_port = port_of(job % 1'000'000'007, 0);
  }
  return launch;
}

// Whether this process is a task of a Slurm step. The ids of special steps (batch script, extern)
// are not small numbers.
bool is_in_step(const Variables& variables, std::optional<bool> has_terminal) {
  if (variables.has("SLURM_PTY_PORT") || variables.has("SLURM_PTY_WIN_COL")) {
    // With srun --pty PROGRAM the first task has the terminal, too, but slurmstepd itself started
    // this task.
    const bool is_in_shell = has_terminal
                                 ? *has_terminal
                                 : has_controlling_terminal() && parent_program() != "slurmstepd";
    if (is_in_shell) return false;
  }
  const char* step = variables.text("SLURM_STEP_ID");
  if (step == nullptr) step = variables.text("SLURM_STEPID");
  return step != nullptr && std::strlen(step) < 9 && variables.has("SLURM_PROCID") &&
         std::strspn(step, "0123456789") == std::strlen(step);
}

}  // namespace

Launch launch_of(const ReadEnvironment& read, std::optional<bool> has_terminal) {
  if (is_launch_set(read)) return *explicit_launch();
  const Variables variables(read);
  Launch launch;
  if (variables.has("RANK") || variables.has("WORLD_SIZE")) {
    launch = of_torchrun(variables);
  } else if (variables.has("OMPI_COMM_WORLD_RANK")) {
    launch = of_open_mpi(variables);
  } else if (is_in_step(variables, has_terminal)) {
    launch = of_slurm(variables);
  } else {
    launch.local_rank = launch.node_rank = 0;
    launch.local_world_size = 1;
    return launch;
  }
  read_meeting_place(launch, read);
  if (launch.local_world_size == 0) launch.local_world_size.reset();
  return launch;
}

void read_meeting_place(Launch& launch, const ReadEnvironment& read) {
  const Variables variables(read);
  if (const char* address = variables.text("MASTER_ADDR")) launch.master_addr = address;
  if (const auto port = variables.number("MASTER_PORT")) launch.master_port = port;
  if (const char* id = variables.text("CAIRN_JOB_ID")) launch.job_id = id;
}

FormatVariables variables_of_writer(const std::string& run_name, const ReadEnvironment& read) {
  FormatVariables variables = dist_variables(run_name, read);
  if (launch_of(read).world_size == 1) return variables;
  for (auto& [name, value] : variables) {
    if (name == "rank" || name == "local_rank" || name == "node_rank") value = std::int64_t{0};
  }
  return variables;
}

bool is_launch_set(const ReadEnvironment& read) { return !read && explicit_launch(); }

void set_launch(std::optional<Launch> launch) { explicit_launch() = std::move(launch); }

}  // namespace cairn
