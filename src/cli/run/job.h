// Runs the processes of a job on this machine, like Composer's launcher (composer/cli/launcher.py):
//
//  1. Each process gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK, MASTER_ADDR and
//     MASTER_PORT. It also gets CAIRN_JOB_ID, by which ranks refuse ranks of another job. The first
//     process writes to the terminal, the others to files. None reads from the terminal.
//  2. The first process that ends with an exit code other than 0, or by a signal, ends the job. All
//     other processes get SIGTERM, unless step 4 already passed a SIGTERM or SIGINT on. After the
//     grace period these processes, and everything they started, get SIGKILL. If a process failed
//     by itself and its output went to no requested file, that output is shown.
//  3. A process that ends with 75 (stopped, saved, run me again) has not failed. All others stop
//     after the same batch, and the job waits for them.
//  4. SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are passed on to all processes and
//     everything they started, unless this program was started to ignore the signal. A second
//     SIGTERM or SIGINT is passed on, too; cairn's programs then exit at once. If a process is a
//     shell, it dies of the signal before the program that it waits for. Then the job waits for
//     that program, and uses the program's exit code. If this program is killed, the processes that
//     it started itself get SIGTERM; programs started by them do not.
//  5. The exit code is that of the first process, by rank, that failed by itself: 128 + the signal
//     if a signal ended it. The exit code is 75 if no process failed and one ended with 75. Nothing
//     is started again: the scheduler that started the job does that, and autoresume continues the
//     run.
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
  std::string job_id = {};  // empty: CAIRN_JOB_ID of the environment, if set
  // Formats for the output files of local ranks above 0: {rank}, {local_rank}, {world_size},
  // {local_world_size}, {node_rank}. Empty: a temporary file.
  std::string output = {};
  std::string errors = {};
  std::chrono::seconds grace{30};
  bool is_verbose = false;
};

// Runs the job to its end and returns the exit code. Handles SIGCHLD and the signals of step 4
// itself: call it in a process of its own, on its only thread. Throws NotFoundError if the program
// of `options.command` does not exist.
int run_job(const JobOptions& options, std::ostream& err);

}  // namespace cairn::cli
