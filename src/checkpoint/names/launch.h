// This process's rank in its job, read from the launcher's environment variables.
//
// The first source that is present counts:
//  1. explicit ranks from the program (dist::initialize()): set_launch()
//  2. torchrun, the composer launcher, cairn-run and Kubernetes' operators: RANK, WORLD_SIZE,
//     LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK or GROUP_RANK, MASTER_ADDR, MASTER_PORT
//  3. Open MPI: OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE. Open MPI comes before Slurm,
//     because in an allocation mpirun starts its daemons with srun. The processes inherit the
//     daemons' Slurm variables, which say nothing about their rank.
//  4. Slurm, in a step (srun): SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID, SLURM_NODEID. The
//     batch script is not a step but has SLURM_NTASKS and SLURM_PROCID, too. So these two variables
//     count only together with SLURM_STEP_ID. A program that is started in the shell of an srun
//     --pty does not count either: only one such shell runs, whatever number of tasks was asked
//     for. Steps that are started from that shell inherit its variables but not its terminal.
//  5. otherwise the process is alone.
//
// Open MPI and Slurm name no address for rank 0. On one machine cairn takes 127.0.0.1, on several
// machines the first node of the step (Slurm only). In these two cases the port is made from the
// job's number. MASTER_ADDR overrides the address, and MASTER_PORT the port. The job's id is
// CAIRN_JOB_ID (cairn-run sets this variable), else the launcher's own id: TORCHELASTIC_RUN_ID,
// Open MPI's PMIX_NAMESPACE, or Slurm's job, step and restart.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cairn/checkpoint/names.h"

namespace cairn {

struct Launch {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  // nullopt: the launcher does not say.
  std::optional<std::int64_t> local_rank = std::nullopt;
  std::optional<std::int64_t> local_world_size = std::nullopt;  // at least 1
  std::optional<std::int64_t> node_rank = std::nullopt;
  // The address of rank 0. Empty if it is not known, which matters only with several processes.
  std::string master_addr = {};
  std::optional<std::int64_t> master_port = std::nullopt;
  // True: the launcher (torchrun's agent), not rank 0, listens at that address. The launcher goes
  // on listening for each attempt of the job.
  bool is_store_hosted = false;
  std::string attempt = {};
  // The launcher's id for this start of the job, the same on all ranks. Empty if it has none.
  std::string job_id = {};
  // For messages: "torchrun's variables", "Slurm's variables". Empty for a process alone.
  std::string source = {};
};

// Reads the launch from the environment. A process alone may have any RANK, which then is only a
// part of names. `read`: std::getenv if null. `has_terminal`: whether a terminal controls the
// process; nullopt: the system is asked. Throws UsageError for variables that contradict each
// other: a rank that is not a number or not below the world size, or a world size without a rank.
Launch launch_of(const ReadEnvironment& read = nullptr,
                 std::optional<bool> has_terminal = std::nullopt);

// dist_variables() of the process that writes the checkpoints: rank 0 of several processes. A
// process alone writes them itself, whatever its RANK.
FormatVariables variables_of_writer(const std::string& run_name,
                                    const ReadEnvironment& read = nullptr);

// Reads MASTER_ADDR, MASTER_PORT and CAIRN_JOB_ID where they are set. Throws UsageError for a port
// that is not a number.
void read_meeting_place(Launch& launch, const ReadEnvironment& read = nullptr);

// Whether the launcher says that all ranks are on this machine.
inline bool is_on_one_machine(const Launch& launch) {
  return launch.local_world_size == launch.world_size;
}

// From now on launch_of(nullptr) and dist_variables() return `launch`. nullopt: they read the
// environment again.
void set_launch(std::optional<Launch> launch);
// Whether launch_of(read) returns what set_launch() was given.
bool is_launch_set(const ReadEnvironment& read);

}  // namespace cairn
