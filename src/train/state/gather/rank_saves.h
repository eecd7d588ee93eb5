// Sharded checkpoints of a run (parallelism_config with state_dict_type "sharded"): what a rank has
// of them, and how all ranks write one together (checkpoint/ranks/save_over_ranks.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cairn/train/state_dict.h"

#include "checkpoint/plan/save_job.h"

namespace cairn {

class Logger;
class State;
struct RankTable;
namespace sharded {
class KeptPlan;
}

// Whether the checkpoints of this run are folders that all ranks write.
bool saves_over_ranks(const State& state);

// Whether they are a tar of each rank (checkpoint/ranks/save_rank_tars.h).
bool saves_rank_tars(const State& state);

class RankSaves {
 public:
  // On all ranks together: once for each thread that saves. DistError.
  RankSaves();
  ~RankSaves();
  RankSaves(const RankSaves&) = delete;
  RankSaves& operator=(const RankSaves&) = delete;

  // Makes the job one of all ranks: its value is what this rank has, views of live memory, and
  // its `write` ends on all ranks alike, as save_over_ranks() does. Each rank gives its pipeline
  // the same jobs in the same order; rank 0 alone with `latest`. What becomes superfluous rank 0
  // removes, and the first rank of another machine the parts that lie there alone.
  void fill(SaveJob& job, const State& state, const SaveCheckpointOptions& what, Logger* logger);
  // The same of a run that saves_rank_tars(): each rank gives the job a path of its own, and its
  // `latest`. On all ranks together. DistError; UnsupportedError for weights alone.
  void fill_tar(SaveJob& job, const State& state, const SaveCheckpointOptions& what,
                Logger* logger);

  // Whether it is the first rank of a machine that is not rank 0's.
  bool is_first_of_another_machine() const;

 private:
  std::shared_ptr<RankTable> table_;         // of the thread that saves
  std::shared_ptr<sharded::KeptPlan> kept_;  // that one's, too
  std::int64_t number_ = 0;                  // of roll calls that are taken, on all ranks alike
};

// save_checkpoint() of a run that saves_rank_tars(). UsageError for a name without {rank};
// AlreadyExistsError for one without a counter that some rank has a file of.
std::string save_rank_tar(const State& state, const std::string& filename,
                          const SaveCheckpointOptions& options);

// UsageError unless {rank} is in it.
void require_rank(const std::string& format);
// UnsupportedError naming what of the model no such file can hold.
void check_rank_tars(const State& state);

}  // namespace cairn
