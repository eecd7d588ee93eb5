#include "trainer/ranks.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "cairn/algorithms/ema.h"
#include "cairn/dist/dist.h"
#include "cairn/dist/sharding.h"
#include "cairn/error.h"
#include "cairn/train/optimizer.h"
#include "cairn/train/parameters.h"
#include "cairn/train/rng.h"

#include "checkpoint/names/launch.h"
#include "dist/backend.h"
#include "dist/group.h"
#include "dist/team.h"
#include "io/machine.h"
#include "trainer/deepspeed_config.h"
#include "trainer/rank_facts.h"
#include "trainer/trainer_impl.h"

namespace cairn {

std::optional<SyncStrategy> find_sync_strategy(const std::string& name) {
  if (name == "single_auto_sync") return SyncStrategy::kSingleAutoSync;
  if (name == "multi_auto_sync") return SyncStrategy::kMultiAutoSync;
  if (name == "forced_sync") return SyncStrategy::kForcedSync;
  return std::nullopt;
}

std::optional<Value> rng_of_rank(std::optional<Value> states) {
  if (!states || dist::world_size() == 1) return states;
  const auto rank = static_cast<std::size_t>(dist::rank());
  if (rank >= states->as_items().size()) return std::nullopt;
  return Value(List{states->as_items()[rank]});
}

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
        "tell the processes of a machine apart, or CUDA_VISIBLE_DEVICES give each its own. To try "
        "several ranks on one GPU set CAIRN_CUDA_BACKEND=gloo",
        other->second, rank, own.gpu, own.machine);
  }
  return std::nullopt;
}

AgreedOutcome agree_on(const RankOutcome& own) {
  const auto all = Team::of_job().of_all(List{static_cast<std::int64_t>(own.kind), own.why});
  AgreedOutcome agreed;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto kind = static_cast<RankOutcome::Kind>(all[rank].as_items().at(0).as_int());
    agreed.is_ok_anywhere = agreed.is_ok_anywhere || kind == RankOutcome::kOk;
    if (kind <= agreed.outcome.kind) continue;
    agreed.outcome = {kind, all[rank].as_items().at(1).as_str()};
    agreed.rank = static_cast<std::int64_t>(rank);
  }
  return agreed;
}

// On one machine rank 0 listens at 127.0.0.1. torchrun's agent listens itself.
void Trainer::Impl::warn_of_open_port(const Launch& launch) {
  if (launch.rank != 0 || launch.is_store_hosted || is_on_one_machine(launch)) return;
  logger.log_message(
      "warning: rank 0 listens on all network interfaces, without authentication: let only the "
      "machines of this job reach its port. If all ranks are on one machine, start them with "
      "cairn-run, or set LOCAL_WORLD_SIZE: rank 0 then listens at 127.0.0.1");
}

void Trainer::Impl::join_ranks() {
  if (!dist::is_initialized() && dist::world_size() > 1) {
    const std::chrono::duration<double> timeout(options.dist_timeout);
    const Launch launch = launch_of();
    logger.log_message(dist::describe() + ": meeting the others at " + launch.master_addr + ":" +
                       (launch.master_port ? std::to_string(*launch.master_port) : "?"));
    warn_of_open_port(launch);
    dist::initialize({.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(timeout)});
  }
  context.group = dist::group();
  if (context.group == nullptr) return;
  const Value agreed = Team::of_job().of_first(List{options.run_name.value_or(""), *options.seed});
  if (!options.run_name) options.run_name = agreed.as_items().at(0).as_str();
  options.seed = agreed.as_items().at(1).as_int();
  require_same_on_ranks(facts_of(options));
  if (dist::rank() != 0) options.load_progress_bar = false;
}

// As Composer's: the process's number on its machine, where the launcher does not show each its
// own.
void Trainer::Impl::choose_device_of_rank() {
  const auto shown = static_cast<std::int64_t>(torch::cuda::device_count());
  RankDevice own = {.device = *options.device};
  if (own.device == "gpu") {
    own.gpu = shown == 1 ? 0 : dist::local_rank();
    own.shown = shown;
    context.device = at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(own.gpu));
    own.can_share = dist::transport_of(context.device) == dist::Transport::kGloo;
  }
  check_devices_of_ranks(own);
  if (own.device == "gpu") c10::impl::VirtualGuardImpl(at::kCUDA).setDevice(context.device);
}

// All hear of what is wrong with one.
void Trainer::Impl::check_devices_of_ranks(const RankDevice& own) const {
  const char* const visible = getenv("CUDA_VISIBLE_DEVICES");
  const auto all = Team::of_job().of_all(
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

void Trainer::Impl::seed_generators() {
  constexpr std::int64_t kSeeds = std::int64_t{1} << 32;
  seed_all((state.rank_zero_seed + dist::rank()) % kSeeds);
}

void Trainer::Impl::check_loader_of_rank(const DataSpec& dataloader,
                                         const std::string& option) const {
  if (context.group == nullptr || !dataloader || dataloader.dataloader->is_of_rank()) return;
  throw UsageError(option + ": this is " + dist::describe() +
                   ", and every rank would be given the same samples. Give each its part: "
                   ".sampler = DistributedSamplerOptions{.shuffle = ...} in DataLoaderOptions");
}

void Trainer::Impl::check_loaders_of_rank(const EvaluatorList& list) const {
  for (const Evaluator& evaluator : list.items())
    check_loader_of_rank(evaluator.dataloader, "eval_dataloader '" + evaluator.label + "'");
}

// The end of an epoch is the same batch on all ranks, however their loaders differ.
void Trainer::Impl::agree_on_epoch_length() {
  if (context.group == nullptr) return;
  constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();
  at::Tensor shortest = at::full({1}, state.dataloader_len.value_or(kUnknown), at::kLong);
  dist::all_reduce(shortest, dist::ReduceOp::kMin);
  const auto length = shortest.item<std::int64_t>();
  state.dataloader_len.reset();
  if (length != kUnknown) state.dataloader_len = length;
}

// And all have rank 0's weights, whatever they were made with.
void Trainer::Impl::check_position_of_ranks() const {
  if (context.group == nullptr) return;
  const auto all = Team::of_job().of_all(List{state.timestamp.epoch, state.timestamp.batch});
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const auto text = [&](std::size_t of) {
      return "rank " + std::to_string(of) + " is at epoch " +
             std::to_string(all[of].as_items().at(0).as_int()) + ", batch " +
             std::to_string(all[of].as_items().at(1).as_int());
    };
    throw UsageError("the ranks do not begin at one position: " + text(0) + ", " + text(rank) +
                     ". Give all the same checkpoint");
  }
  torch::nn::Module& module = state.model->module();
  std::vector<at::Tensor> tensors;  // of a sharded model each rank has its own
  if (!state.sharding) tensors = each_once(parameters(module));
  for (const at::Tensor& buffer : module.buffers())
    tensors.push_back(buffer);
  dist::broadcast_tensors(tensors, "sending the model's weights");
}

void Trainer::Impl::shard_model() {
  if (options.deepspeed_config) {
    state.deepspeed_stage = deepspeed_stage(*options.deepspeed_config);
    options.parallelism_config = sharding_of_stage(*state.deepspeed_stage);
  }
  if (!options.parallelism_config || !options.parallelism_config->fsdp) return;
  const FSDPConfig& config = *options.parallelism_config->fsdp;
  if (config.state_dict_type == "sharded") {
    state.sharded_ckpt_prefix_dir = config.sharded_ckpt_prefix_dir;
  }
  if (context.group == nullptr || config.sharding_strategy == "NO_SHARD") return;
  const std::shared_ptr<torch::nn::Module> module(state.model, &state.model->module());
  state.sharding = fully_shard(module, config);
  if (state.sharding->shard_count() == 1) state.sharding.reset();  // data parallel
  if (state.sharding && config.verbose) logger.log_message(state.sharding->describe());
}

// What looks at whole weights or gradients, which no rank has.
void Trainer::Impl::check_sharded() const {
  if (!state.sharding) return;
  for (const auto& algorithm : state.algorithms) {
    if (dynamic_cast<const EMA*>(algorithm.get()) == nullptr) continue;
    throw UnsupportedError(
        "parallelism_config: EMA keeps a copy of whole weights, of which a sharded model has a "
        "part on each rank: leave it out, or set sharding_strategy to NO_SHARD");
  }
  if (!state.optimizer || !can_be_saved(*state.optimizer)) return;
  const std::string name = optimizer_name(*state.optimizer);
  if (needs_closure(*state.optimizer) || name == "Adafactor" || name == "SparseAdam") {
    throw UnsupportedError("parallelism_config: the optimizer " + name +
                           " looks at whole weights, of which a sharded model has a part on each "
                           "rank: take one that steps each element by itself, as AdamW");
  }
  if (!options.optimizers.is_recipe() && !state.optimizer->state().empty()) {
    throw UsageError(
        "parallelism_config: the optimizer has state of whole weights, and the model is sharded "
        "now: give a recipe, as AdamW({.lr = ...})");
  }
}

// What is asked of one rank is done by all, after the same batch.
Requests Trainer::Impl::agree(Requests own) const {
  if (context.group == nullptr) return own;
  const auto sums = dist::sum({own.save ? 1.0 : 0.0, own.stop ? 1.0 : 0.0}, "asking for signals");
  own.save = sums[0] > 0;
  own.stop = sums[1] > 0;
  if ((own.save || own.stop) && own.reason.empty()) own.reason = "asked of another rank";
  return own;
}

// What callbacks still do in close(), rank 0's uploads for one, would end with the first process
// that leaves. Not behind an error: the others may be elsewhere.
void Trainer::Impl::leave_together() {
  if (dist::group() == nullptr || !std::exchange(ended_well, false)) return;
  dist::barrier("closing the Trainer");
}

// Some launchers give each process processors of its own, others give all the same. Of those that
// several ranks of a machine may use each has its share.
double Trainer::Impl::usable_processors_of_rank() const {
  const double all = machine_limits().cpus;
  if (context.group == nullptr) return all;
  const Value own = Value(List{node_name(), usable_processors()});
  const auto of_ranks = Team::of_job().of_all(own);
  return all / static_cast<double>(std::ranges::count(of_ranks, own));
}

}  // namespace cairn
