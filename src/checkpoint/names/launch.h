// Who this process is among those of its job, by what the launcher put into the environment.
//
// The first that is there counts:
//  1. what the program said itself (dist::initialize() with explicit ranks): set_launch()
//  2. torchrun, the composer launcher, cairn-run and Kubernetes' operators: RANK, WORLD_SIZE,
//     LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK or GROUP_RANK, MASTER_ADDR, MASTER_PORT
//  3. Open MPI: OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE. Before Slurm: in an
//     allocation mpirun starts its daemons with srun, and their Slurm variables are those of its
//     processes, too.
//  4. Slurm, in a step (srun): SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID, SLURM_NODEID. The
//     batch script itself is no step, and has SLURM_NTASKS and SLURM_PROCID all the same: without
//     SLURM_STEP_ID they say nothing. Neither is what is started in the shell of an srun --pty, of
//     which there is one, whatever number of tasks was asked for. Its variables reach the steps
//     that are started from it, but not its terminal.
//  5. otherwise the process is alone.
// 3 and 4 name no place to meet: on one machine that is 127.0.0.1 and a port made of the job's
// number; on several the first node of the step (Slurm). MASTER_ADDR and MASTER_PORT go first.
//
// The job's id is CAIRN_JOB_ID (cairn-run sets it), else the launcher's own: TORCHELASTIC_RUN_ID,
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
  // Where rank 0 is met; empty when that is not known, which only matters with several processes.
  std::string master_addr = {};
  std::optional<std::int64_t> master_port = std::nullopt;
  // Not rank 0 but the launcher listens there (torchrun's agent), for each of its attempts again.
  bool is_store_hosted = false;
  std::string attempt = {};
  // The launcher's name for this start of the job, the same on all ranks. Empty: it has none.
  std::string job_id = {};
  // For messages: "torchrun's variables", "Slurm's variables"; empty for a process alone.
  std::string source = {};
};

// UsageError for what cannot be: a rank that is no number or not below the world size, a world size
// without a rank. A process alone may have any RANK, which is a part of names then.
// `read`: std::getenv when null. `has_terminal`: whether a terminal controls the process, asked of
// the system when nullopt.
Launch launch_of(const ReadEnvironment& read = nullptr,
                 std::optional<bool> has_terminal = std::nullopt);

// dist_variables() of the process that writes the checkpoints: of several that is rank 0, of a
// process alone itself, whatever its RANK.
FormatVariables variables_of_writer(const std::string& run_name,
                                    const ReadEnvironment& read = nullptr);

// Reads MASTER_ADDR, MASTER_PORT and CAIRN_JOB_ID, where they are set. UsageError for a port that
// is no number.
void read_meeting_place(Launch& launch, const ReadEnvironment& read = nullptr);

// Whether the launcher says that all ranks are on this machine.
inline bool is_on_one_machine(const Launch& launch) {
  return launch.local_world_size == launch.world_size;
}

// From now on launch_of(nullptr) and dist_variables() give this; nullopt: the environment again.
void set_launch(std::optional<Launch> launch);
// Whether it does, for this reader.
bool is_launch_set(const ReadEnvironment& read);

}  // namespace cairn
