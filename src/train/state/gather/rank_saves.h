// Sharded checkpoints of a run (parallelism_config with state_dict_type "sharded"): a rank's part
// of them, and how all ranks write one together (checkpoint/ranks/save_over_ranks.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cairn/export.h"
#include "cairn/train/state_dict.h"

#include "checkpoint/plan/save_job.h"

namespace CAIRN_PUBLIC cairn {
class Logger;
class State;
}  // namespace cairn

namespace cairn {

struct RankTable;
namespace sharded {
class KeptPlan;
}

// Whether the checkpoints of this run are folders that all ranks write.
bool saves_over_ranks(const State& state);

// Whether the checkpoints of this run are one tar per rank (checkpoint/ranks/save_rank_tars.h).
bool saves_rank_tars(const State& state);

class RankSaves {
 public:
  // Call it on all ranks together, once for each thread that saves. Throws DistError.
  RankSaves();
  ~RankSaves();
  RankSaves(const RankSaves&) = delete;
  RankSaves& operator=(const RankSaves&) = delete;

  // Turns `job` into a save of all ranks together. The job's value becomes this rank's part, as
  // views of live memory. The job's `write` ends alike on all ranks, as save_over_ranks() does.
  // Each rank must give its pipeline the same jobs in the same order; only rank 0 gives them
  // `latest`. Rank 0 removes superfluous checkpoints. The first rank of each other machine removes
  // the parts that only its machine has.
  void fill(SaveJob& job, const State& state, const SaveCheckpointOptions& what, Logger* logger);
  // Does what fill() does, for a run that saves_rank_tars(): each rank gives the job its own path
  // and its own `latest`. Call it on all ranks together. Throws DistError, and UnsupportedError for
  // weights alone.
  void fill_tar(SaveJob& job, const State& state, const SaveCheckpointOptions& what,
                Logger* logger);

  // Whether this is the first rank of its machine, and the machine is not rank 0's.
  bool is_first_of_another_machine() const;

 private:
  std::shared_ptr<RankTable> table_;         // For the thread that saves.
  std::shared_ptr<sharded::KeptPlan> kept_;  // For the thread that saves, too.
  std::int64_t number_ = 0;                  // Roll calls used so far; the same on all ranks.
};

// save_checkpoint() for a run that saves_rank_tars(). Throws UsageError for a name without {rank}.
// Throws AlreadyExistsError if the name has no counter and some rank's file exists.
std::string save_rank_tar(const State& state, const std::string& filename,
                          const SaveCheckpointOptions& options);

// Throws UsageError unless the format contains {rank}.
void require_rank(const std::string& format);
// Throws UnsupportedError if the model has a parameter that no such file can hold; the error names
// it.
void check_rank_tars(const State& state);

}  // namespace cairn
