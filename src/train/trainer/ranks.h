// Agreements between the processes of a job, besides their computation.
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

// The device on which a rank trains.
struct RankDevice {
  std::string device = "cpu";  // or "gpu"
  std::string machine = {};
  std::int64_t gpu = 0;    // The rank's number among the GPUs that it is shown.
  std::int64_t shown = 0;  // How many GPUs the rank is shown.
  // The GPUs that the rank is shown, as in CUDA_VISIBLE_DEVICES. Empty: all GPUs of the machine.
  std::string visible = {};
  bool can_share = false;  // Whether ranks can share a GPU. Not with NCCL.
};
// The first conflict between the ranks' devices: two ranks on one GPU, or a rank without one.
// nullopt if there is none.
std::optional<std::string> find_device_conflict(const std::vector<RankDevice>& ranks);

// Throws UsageError, on all ranks, if their devices conflict.
void check_devices_of_ranks(const RankDevice& own);

// Seeds each rank's generators with the seed plus the rank's number.
void seed_generators(std::int64_t seed_of_rank_zero);

// Throws UsageError for a loader that gives every rank the same samples.
void check_loader_of_rank(const DataSpec& dataloader, const std::string& option);
void check_loaders_of_rank(const EvaluatorList& list);

// The least epoch length of all ranks. So an epoch ends at the same batch on all ranks, even if
// their loaders differ. nullopt: no rank knows its length.
std::optional<std::int64_t> least_of_ranks(std::optional<std::int64_t> own);

// A request to one rank becomes a request to all, after the same batch.
Requests of_all_ranks(Requests own);

// Some launchers give each process its own processors, others give all processes the same ones.
// Ranks of a machine that share processors get equal parts of them.
double usable_processors_of_rank();

}  // namespace cairn
