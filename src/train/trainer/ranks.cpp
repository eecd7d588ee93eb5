#include "train/trainer/ranks.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/train/rng.h"

#include "dist/group.h"
#include "dist/team.h"
#include "io/machine.h"

namespace cairn {

std::optional<std::string> find_device_conflict(const std::vector<RankDevice>& ranks) {
  std::map<std::tuple<std::string, std::string, std::int64_t>, std::size_t> taken;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankDevice& own = ranks[rank];
    if (own.device != ranks.front().device) {
      return fmt::format("rank 0 trains on {} and rank {} on {}: set device to one of them on all",
                         ranks.front().device, rank, own.device);
    }
    if (own.device != "gpu") continue;
    if (own.gpu >= own.shown) {
      return fmt::format(
          "rank {} is the process {} of its machine, counted from 0, and is shown {} GPUs: start "
          "as "
          "many processes on a machine as it has GPUs",
          rank, own.gpu, own.shown);
    }
    const auto [other, is_new] =
        taken.try_emplace(std::tuple(own.machine, own.visible, own.gpu), rank);
    if (is_new || own.can_share) continue;
    return fmt::format(
        "the ranks {} and {} both have cuda:{} of {}: LOCAL_RANK, which the launcher sets, must "
        "tell the processes of a machine apart, or CUDA_VISIBLE_DEVICES give each its own.\nTo try "
        "several ranks on one GPU set CAIRN_CUDA_BACKEND=gloo",
        other->second, rank, own.gpu, own.machine);
  }
  return std::nullopt;
}

void check_devices_of_ranks(const RankDevice& own) {
  const char* const visible = getenv("CUDA_VISIBLE_DEVICES");
  const auto all = Team::of_job().gather_all(
      List{own.device, own.gpu, own.shown, visible == nullptr ? "" : visible, own.can_share});
  const std::vector<std::string> machines = dist::machines_of_ranks();
  std::vector<RankDevice> ranks;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto& fields = all[rank].as_items();
    ranks.push_back({.device = fields.at(0).as_str(),
                     .machine = machines.at(rank),
                     .gpu = fields.at(1).as_int(),
                     .shown = fields.at(2).as_int(),
                     .visible = fields.at(3).as_str(),
                     .can_share = fields.at(4).as_bool()});
  }
  if (const auto conflict = find_device_conflict(ranks)) throw UsageError(*conflict);
}

void seed_generators(std::int64_t seed_of_rank_zero) {
  constexpr std::int64_t kSeeds = std::int64_t{1} << 32;
  seed_all((seed_of_rank_zero + dist::rank()) % kSeeds);
}

void check_loader_of_rank(const DataSpec& dataloader, const std::string& option) {
  if (dist::group() == nullptr || !dataloader || dataloader.dataloader->is_of_rank()) return;
  throw UsageError(option + ": this is " + dist::describe() +
                   ", and every rank would be given the same samples. Give each its part: "
                   ".sampler = DistributedSamplerOptions{.shuffle = ...} in DataLoaderOptions");
}

void check_loaders_of_rank(const EvaluatorList& list) {
  for (const Evaluator& evaluator : list.items())
    check_loader_of_rank(evaluator.dataloader, "eval_dataloader '" + evaluator.label + "'");
}

std::optional<std::int64_t> least_of_ranks(std::optional<std::int64_t> own) {
  if (dist::group() == nullptr) return own;
  constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();
  at::Tensor shortest = at::full({1}, own.value_or(kUnknown), at::kLong);
  dist::all_reduce(shortest, dist::ReduceOp::kMin);
  const auto length = shortest.item<std::int64_t>();
  return length == kUnknown ? std::nullopt : std::optional(length);
}

Requests of_all_ranks(Requests own) {
  if (dist::group() == nullptr) return own;
  const auto sums = dist::sum({own.save ? 1.0 : 0.0, own.stop ? 1.0 : 0.0}, "asking for signals");
  return joint_requests(std::move(own), sums[0] > 0, sums[1] > 0);
}

double usable_processors_of_rank() {
  const double all = machine_limits().cpus;
  if (dist::group() == nullptr) return all;
  const Value own = Value(List{node_name(), usable_processors()});
  const auto of_ranks = Team::of_job().gather_all(own);
  return all / static_cast<double>(std::ranges::count(of_ranks, own));
}

}  // namespace cairn
