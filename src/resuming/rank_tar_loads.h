// Going on from checkpoints that are a tar of each rank (deepspeed_config).
//
//  1. Each rank opens its own: load_path with its {rank}, or what it finds in its saver's folder.
//     Nobody needs to see another's folder.
//  2. All tell each other what they have. They go on only from tars of one save, by its id, of as
//     many ranks as the job has; anything else is an error on all, the same everywhere.
//  3. Autoresume: where some are further than others, a rank died while the last save was being
//     published: who is further goes back, until all stand at one save. A rank that has none, where
//     others have, is an error that names it: nobody begins anew, nobody decides alone.
//  4. Each loads its own. A tar whose bytes prove bad is passed over by all, with those of the same
//     save; that is logged.
#pragma once

#include <cstdint>
#include <vector>

#include "cairn/train/options.h"

#include "resuming/load_run.h"

namespace cairn {

class CheckpointSaver;

// What a rank has in front of it.
struct SeenTar {
  bool is_there = false;
  std::string attempt = {};                 // the id of its save
  std::vector<std::int64_t> position = {};  // how far it is
  std::int64_t rank = 0;
  std::int64_t world_size = 1;  // of those that saved it
  std::string path = {};
};

// What becomes of what the ranks see, by rank.
struct TarChoice {
  enum Kind { kNone, kAll, kGoBack };
  Kind kind = kNone;  // nobody has any; all have those of one save; some must look for older ones
  std::vector<bool> goes_back = {};  // by rank
};

// Steps 2 and 3; the same on all ranks. UsageError for ranks that have none, or a tar of another
// rank; MismatchError for another number of ranks. `went_back`: whether some have by now passed
// over a tar that was good.
TarChoice choose_tars(const std::vector<SeenTar>& seen, bool went_back);

// Whether load_path is of a tar of each rank: the run saves such, and it has {rank}.
bool loads_rank_tars(const TrainerOptions& options, const State& state);

// load_from_load_path() of such a load_path. UsageError for what is called as no tar, NotFoundError
// that names the rank whose tar is not there.
LoadOutcome load_rank_tars(const TrainerOptions& options, State& state, Logger& logger);

// autoresume() of a run that saves such.
LoadOutcome resume_rank_tars(const TrainerOptions& options, State& state,
                             const CheckpointSaver& saver, Logger& logger);

}  // namespace cairn
