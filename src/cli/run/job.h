// The processes of a job on this machine (Composer's launcher, composer/cli/launcher.py):
//
//  1. Each gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK, MASTER_ADDR and
//     MASTER_PORT, and CAIRN_JOB_ID, by which ranks refuse those of another job. The first writes
//     to the terminal, the others to files; none reads from it.
//  2. The first one that ends with another code than 0, or by a signal, ends the job: all others
//     get SIGTERM, unless step 4 gave them one, and after the grace SIGKILL, with what they
//     started. What those that failed by themselves had written to files that nobody asked for is
//     shown.
//  3. A process that ends with 75 (stopped, saved, run me again) is none that failed: all others
//     stop after the same batch, and are waited for.
//  4. SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 go to all processes and what they
//     started, unless this program was started to ignore them; a second SIGTERM or SIGINT, too,
//     after which cairn's leave at once. A shell dies of it before the program that it waits for:
//     then that has to end, too, and says with which code. When this program is killed those that
//     it started itself get SIGTERM, and nothing behind them.
//  5. The exit code is that of the first process, by rank, of those that failed by themselves; 128
//     + the signal of one that a signal ended; 75 when none failed and one ended with it. Nothing
//     is started again: whoever started the job does that, and autoresume goes on.
#pragma once

#include <chrono>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace cairn::cli {

struct JobOptions {
  std::vector<std::string> command;
  std::int64_t nproc = 1;
  std::int64_t world_size = 1;
  std::int64_t base_rank = 0;
  std::int64_t node_rank = 0;
  std::string master_addr = "127.0.0.1";
  std::int64_t master_port = 0;
  std::string job_id = {};  // empty: CAIRN_JOB_ID of the environment, if there is one
  // Format strings of the files of local ranks above 0: {rank}, {local_rank}, {world_size},
  // {local_world_size}, {node_rank}. Empty: a temporary file.
  std::string output = {};
  std::string errors = {};
  std::chrono::seconds grace{30};
  bool is_verbose = false;
};

// Runs it to its end; returns the exit code. Takes SIGCHLD and the signals of step 4 for itself:
// call it in a process of its own, on its only thread. NotFoundError when there is no such program.
int run_job(const JobOptions& options, std::ostream& err);

}  // namespace cairn::cli
