// What the processes of a job agree on, beside what they compute.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cairn/train/data.h"
#include "cairn/train/evaluator.h"
#include "cairn/value.h"

#include "train/engine/stop_request.h"
#include "train/loop/loop_context.h"

namespace cairn {

// Where a rank trains.
struct RankDevice {
  std::string device = "cpu";  // or "gpu"
  std::string machine = {};
  std::int64_t gpu = 0;    // the number of its own among those that it is shown
  std::int64_t shown = 0;  // how many they are
  // Which they are, as CUDA_VISIBLE_DEVICES says; empty: those of the machine.
  std::string visible = {};
  bool can_share = false;  // with another rank: not with NCCL
};
// What is wrong with them, by rank: two on one GPU, one that has none. nullopt when all is well.
std::optional<std::string> find_device_conflict(const std::vector<RankDevice>& ranks);

// UsageError, on all ranks, for a conflict between them.
void check_devices_of_ranks(const RankDevice& own);

// Each rank's generators, with the seed and its number.
void seed_generators(std::int64_t seed_of_rank_zero);

// UsageError for a loader that gives every rank the same samples.
void check_loader_of_rank(const DataSpec& dataloader, const std::string& option);
void check_loaders_of_rank(const EvaluatorList& list);

// The end of an epoch is the same batch on all ranks, however their loaders differ. nullopt: no
// rank knows it.
std::optional<std::int64_t> least_of_ranks(std::optional<std::int64_t> own);

// A request to one rank becomes one to all, after the same batch.
Requests of_all_ranks(Requests own);

// Some launchers give each process processors of its own, others give all the same. If several
// ranks of a machine may use the same ones, each has its share.
double usable_processors_of_rank();

}  // namespace cairn
