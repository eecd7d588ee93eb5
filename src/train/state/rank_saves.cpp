#include "train/state/rank_saves.h"

#include "cairn/dist/dist.h"
#include "cairn/dist/sharding.h"
#include "cairn/train/rng.h"
#include "cairn/train/state.h"

#include "checkpoint/ranks/save_over_ranks.h"
#include "checkpoint/ranks/see_checkpoints.h"
#include "dist/store_meeting.h"
#include "train/state/checkpoint_info.h"

namespace cairn {
namespace {

// Of hybrid sharding: which of the wholes this rank has a part of.
std::uint32_t replica_of(const State& state) {
  if (!state.sharding) return 0;
  return static_cast<std::uint32_t>(dist::rank() / state.sharding->shard_count());
}

RankTable table_of_job() {
  if (dist::world_size() > 1) return dist::rank_table();
  RankTable alone{.meeting = meeting_of_one()};
  open_table(*alone.meeting);
  return alone;
}

}  // namespace

bool saves_over_ranks(const State& state) { return !state.sharded_ckpt_prefix_dir.empty(); }

RankSaves::RankSaves() : table_(std::make_shared<RankTable>(table_of_job())) {}
RankSaves::~RankSaves() = default;

bool RankSaves::is_first_of_another_machine() const {
  return table_->me.rank != 0 && table_->me.machine_leader == table_->me.rank;
}

void RankSaves::fill(SaveJob& job, const State& state, const SaveCheckpointOptions& what,
                     bool overwrite, Logger* logger) {
  // Planning and committing are numbered by the saves that all ranks began: one that failed on a
  // rank before it came to the others puts nobody out of step.
  constexpr std::int64_t kRollCalls = 2;
  const std::int64_t number = kRollCalls * begun_++;
  Value tree = Dict{{"state", what.weights_only ? state.model_state_dict() : state.state_dict()}};
  leave_out(tree, what.ignore_keys, dist::rank() == 0 ? logger : nullptr);
  RankSaveJob over_ranks{.path = job.path, .overwrite = overwrite};
  if (!what.weights_only) over_ranks.own = {{"rng", rng_states().as_items().at(0)}};
  over_ranks.replica = replica_of(state);
  job.value = std::move(tree);
  // What has all of it is rank 0's to remove.
  if (dist::rank() != 0) job.may_remove = is_part_of_one;
  if (dist::rank() != 0 && !is_first_of_another_machine()) job.remove_afterwards.clear();
  job.write = [table = table_, number, over_ranks = std::move(over_ranks)](
                  ObjectStore& store, const SaveJob& save, const std::function<void()>& point) {
    RankSaveJob now = over_ranks;
    now.tree = save.value;
    now.point = point;
    table->number = number;
    return save_over_ranks(*table, store, now).bytes;
  };
}

}  // namespace cairn
