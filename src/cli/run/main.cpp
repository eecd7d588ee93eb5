// cairn-run: starts the processes of a training job on this machine. See docs/distributed.md.
#include <cstdlib>
#include <iostream>
#include <new>
#include <optional>

#include <CLI/CLI.hpp>

#include "cairn/error.h"
#include "cairn/exit_code.h"

#include "cli/run/job.h"
#include "io/durable/atomic_file.h"
#include "io/process/reserved_port.h"

namespace {

std::optional<std::int64_t> number_of_environment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  char* end = nullptr;
  const std::int64_t number = std::strtoll(text, &end, 10);
  if (*end == '\0') return number;
  throw cairn::UsageError("environment variable " + std::string(name) +
                          ": expected a whole number, found \"" + text + "\"");
}

struct Flags {
  std::optional<std::int64_t> nproc, world_size, base_rank, node_rank, master_port;
  std::optional<std::string> master_addr;
  bool is_world_size_given = true;  // not taken from the environment
};

// Takes missing flags from the environment, as Composer's launcher does.
void complete(Flags& flags) {
  const auto take = [](std::optional<std::int64_t>& value, const char* name) {
    if (!value) value = number_of_environment(name);
  };
  // As in Composer's launcher: if WORLD_SIZE equals LOCAL_WORLD_SIZE, the job is on one machine,
  // and --nproc takes precedence.
  const auto world_size = number_of_environment("WORLD_SIZE");
  if (world_size != number_of_environment("LOCAL_WORLD_SIZE")) {
    flags.is_world_size_given = flags.world_size.has_value();
    take(flags.world_size, "WORLD_SIZE");
  }
  take(flags.nproc, "LOCAL_WORLD_SIZE");
  take(flags.base_rank, "BASE_RANK");
  take(flags.node_rank, "NODE_RANK");
  take(flags.master_port, "MASTER_PORT");
  const char* address = std::getenv("MASTER_ADDR");
  if (!flags.master_addr && address != nullptr) flags.master_addr = address;
}

// `port` reserves the port for the job, so that no other process takes it before rank 0 listens
// there.
void set_place(const Flags& flags, cairn::cli::JobOptions& job,
               std::optional<cairn::ReservedPort>& port) {
  const bool is_one_machine = job.world_size == job.nproc;
  if (!is_one_machine && (!flags.master_addr || !flags.master_port)) {
    throw cairn::UsageError(
        "a job of several machines needs --master_addr and --master_port: the machine of rank 0, "
        "and a port that is free there");
  }
  job.master_addr = flags.master_addr.value_or("127.0.0.1");
  if (!flags.master_port) port.emplace();
  job.master_port = port ? port->number() : *flags.master_port;
  // A job on several machines runs this program on each machine, so only CAIRN_JOB_ID can give the
  // job one id on all machines.
  if (is_one_machine) job.job_id = "cairn-run " + cairn::random_digits();
}

void set_ranks(const Flags& flags, cairn::cli::JobOptions& job) {
  const auto fail = [](const std::string& why) { throw cairn::UsageError(why); };
  job.nproc = flags.nproc.value_or(1);
  if (job.nproc < 1) fail("--nproc must be at least 1");
  job.world_size = flags.world_size.value_or(job.nproc);
  if (job.world_size < job.nproc) {
    fail((flags.is_world_size_given ? "--world_size " : "WORLD_SIZE of the environment, ") +
         std::to_string(job.world_size) + " is less than --nproc " + std::to_string(job.nproc));
  }
  if (job.world_size == job.nproc) {
    if (flags.base_rank.value_or(0) != 0 || flags.node_rank.value_or(0) != 0) {
      fail("--base_rank and --node_rank are 0 on the only machine of a job");
    }
    return;
  }
  const bool is_uniform = job.world_size % job.nproc == 0;
  if (!flags.base_rank && !flags.node_rank) {
    fail("a job of several machines needs --base_rank or --node_rank");
  }
  if (!is_uniform && (!flags.base_rank || !flags.node_rank)) {
    fail("with machines of different --nproc both --base_rank and --node_rank are needed");
  }
  job.base_rank = flags.base_rank ? *flags.base_rank : *flags.node_rank * job.nproc;
  job.node_rank = flags.node_rank ? *flags.node_rank : *flags.base_rank / job.nproc;
  if (job.base_rank < 0 || job.base_rank + job.nproc > job.world_size) {
    fail("the ranks from " + std::to_string(job.base_rank) + " on do not fit --world_size " +
         std::to_string(job.world_size));
  }
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app(
      "cairn-run [OPTIONS] PROGRAM [ARGUMENTS]: starts the processes of a training job on this "
      "machine, and ends all when the first one fails.",
      "cairn-run");
  Flags flags;
  cairn::cli::JobOptions job;
  bool is_command = false;
  app.add_option("-n,--nproc", flags.nproc, "processes on this machine; default 1");
  app.add_option("--world_size", flags.world_size, "processes of the whole job; default nproc");
  app.add_option("--base_rank", flags.base_rank, "rank of the first process on this machine");
  app.add_option("--node_rank", flags.node_rank, "which machine of the job this is");
  app.add_option("--master_addr", flags.master_addr, "the machine of rank 0");
  app.add_option("--master_port", flags.master_port, "a port of it; default: any that is free");
  app.add_option("--stdout", job.output,
                 "files for the output of all processes except the first: run-{rank}.log");
  app.add_option("--stderr", job.errors, "files for their errors, likewise");
  app.add_flag("-c,--command_mode", is_command, "no effect: cairn-run only starts programs");
  app.add_flag("-v,--verbose", job.is_verbose, "say which process is which rank");
  app.set_version_flag("--version", "cairn-run " CAIRN_VERSION);
  app.prefix_command();
  try {
    // Arguments after the program are the program's own, even if they begin with a dash.
    app.parse(argc, argv);
    job.command = app.remaining();
    const bool is_marked = !job.command.empty() && job.command.front() == "--";
    if (is_marked) job.command.erase(job.command.begin());  // other launchers require it
    if (job.command.empty())
      throw cairn::UsageError("a PROGRAM to start is needed: see cairn-run --help");
    complete(flags);
    set_ranks(flags, job);
    std::optional<cairn::ReservedPort> port;
    set_place(flags, job, port);
    return cairn::cli::run_job(job, std::cerr);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const cairn::Error& error) {
    std::cerr << "cairn-run: " << error.what() << "\n";
    return static_cast<int>(cairn::exit_code_of(error));
  }
} catch (const std::bad_alloc&) {
  std::cerr << "cairn-run: there is not enough memory\n";
  return cairn::kFailed;
}
