// Facts that must be the same on all ranks of a job, as pairs of a name and a text.
//
// Ranks may differ in the following, which is left out:
//  (a) paths and stores (save_folder, load_path, file names): each machine has its own;
//  (b) loggers, callbacks except CheckpointSavers, progress and console: often on rank 0 alone;
//  (c) how much a rank computes at once (batch_size, device_train_microbatch_size, workers);
//  (d) deadlines and signals;
//  (e) the seed, and the run_name of a rank that has none: all ranks take those of rank 0.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {
class State;
struct FitOptions;
struct TrainerOptions;
}  // namespace cairn

namespace cairn {

using RankFacts = std::vector<std::pair<std::string, std::string>>;

// The options that decide about training. A checkpoint has them, too (CheckpointForm::options).
RankFacts facts_of(const TrainerOptions& options);
RankFacts facts_of(const FitOptions& options);
// The optimizer's class, and the options of its groups.
RankFacts facts_of_optimizer(const State& state);
// The version of cairn, and names, dtypes and shapes of the model's parameters and buffers.
RankFacts facts_of_program(const TrainerOptions& options);

// The first fact in which rank 0's facts and a rank's own differ. An empty name: there is none.
struct FactDifference {
  std::string name = {};
  std::string first = {};
  std::string own = {};
};
FactDifference find_difference(const RankFacts& first, const RankFacts& own);

// Throws UsageError, on all ranks alike, if facts differ between ranks. The error names the first
// such fact and the ranks. If all ranks agree, costs one collective of a digest. All ranks must
// call it together. One process alone compares nothing.
void require_same_on_ranks(const RankFacts& own);

}  // namespace cairn
