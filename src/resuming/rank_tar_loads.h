// Resuming from checkpoints that consist of a tar per rank (deepspeed_config).
//
//  1. Each rank opens its own tar: load_path with its {rank}, or the tar that the rank finds in its
//     saver's folder. No rank needs to see another rank's folder.
//  2. All ranks tell each other what they have. The ranks resume only from tars of one save (by its
//     id) of as many ranks as the job has. Anything else is the same error on all ranks.
//  3. Autoresume: if some ranks are further than others, a rank died while the last save was being
//     published. The ranks that are further go back to older tars until all ranks have a tar of one
//     save. If some ranks have a tar and others have none, the error names the ranks without a tar:
//     no rank begins anew, and no rank decides alone.
//  4. Each rank loads its own tar. If the bytes of one tar prove bad, all ranks pass over the tars
//     of that save, and log it.
#pragma once

#include <cstdint>
#include <vector>

#include "cairn/export.h"
#include "cairn/train/options.h"

#include "resuming/load_run.h"

namespace CAIRN_PUBLIC cairn {
class CheckpointSaver;
}  // namespace cairn

namespace cairn {

// The tar that a rank has found.
struct SeenTar {
  bool is_there = false;
  std::string attempt = {};                 // Id of its save.
  std::vector<std::int64_t> position = {};  // Its position in training.
  std::int64_t rank = 0;
  std::int64_t world_size = 1;  // Number of ranks that saved it.
  std::string path = {};
};

// The decision that follows from the tars of all ranks.
struct TarChoice {
  enum Kind { kNone, kAll, kGoBack };
  Kind kind = kNone;  // No rank has any; all have those of one save; some must look for older ones.
  std::vector<bool> goes_back = {};  // By rank.
};

// Steps 2 and 3. The result is the same on all ranks. Throws UsageError if ranks have no tar, or
// another rank's tar. Throws MismatchError if the number of ranks differs. `went_back`: whether
// some ranks have already passed over a good tar.
TarChoice choose_tars(const std::vector<SeenTar>& seen, bool went_back);

// Whether load_path names a tar of each rank: the run saves such tars, and the path has {rank}.
bool loads_rank_tars(const TrainerOptions& options, const State& state);

// As load_from_load_path(), for a load_path that names a tar of each rank. Throws UsageError if the
// name is not a tar's. Throws NotFoundError if a tar is missing, and names its rank.
LoadOutcome load_rank_tars(const TrainerOptions& options, State& state, Logger& logger);

// As autoresume(), for a run that saves a tar per rank.
LoadOutcome resume_rank_tars(const TrainerOptions& options, State& state,
                             const CheckpointSaver& saver, Logger& logger);

}  // namespace cairn
