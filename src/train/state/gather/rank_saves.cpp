#include "train/state/gather/rank_saves.h"

#include <utility>

#include "cairn/dist/dist.h"
#include "cairn/dist/sharding.h"
#include "cairn/train/state.h"

#include "checkpoint/ranks/save_over_ranks.h"
#include "checkpoint/ranks/see_checkpoints.h"
#include "checkpoint/sharded/kept_plan.h"
#include "dist/rank_tables.h"
#include "train/state/checkpoint_form.h"
#include "train/state/gather/checkpoint_info.h"

namespace cairn {
namespace {

// For hybrid sharding: the index of the replica of the model that this rank has a part of.
std::uint32_t replica_of(const State& state) {
  if (!state.sharding) return 0;
  return static_cast<std::uint32_t>(dist::rank() / state.sharding->shard_count());
}

std::shared_ptr<RankTable> table_of_job() {
  if (dist::world_size() > 1) return dist::rank_table();
  auto alone = std::make_shared<RankTable>(RankTable{.meeting = meeting_of_one()});
  open_table(*alone->meeting);
  return alone;
}

// dcp.load() refuses a folder that lacks an entry of what it loads into, and ignores additional
// entries. So add the entry that PyTorch 2.7 added to Adam's groups.
void add_newer_entries(Value& entries) {
  constexpr const char* kKey = "decoupled_weight_decay";
  Value* const optimizers = entries.mutable_dict().find("optimizers");
  if (optimizers == nullptr) return;
  for (const char* name : {"Adam", "AdamW"}) {
    Value* const optimizer = optimizers->mutable_dict().find(name);
    Value* const groups =
        optimizer == nullptr ? nullptr : optimizer->mutable_dict().find("param_groups");
    if (groups == nullptr) continue;
    for (Value& group : groups->mutable_list()) {
      Dict& keys = group.mutable_dict();
      if (keys.find(kKey) == nullptr) keys.set(kKey, name == std::string_view("AdamW"));
    }
  }
}

// For most datasets Composer has None here. A dict in its place would hide that from dcp.load(). So
// cairn's dict is moved beside "train", and RunValuesLoad::plan() puts it back.
void move_own_dataset_state(Value& entries) {
  Value* const dataset = entries.mutable_dict().find("dataset_state");
  Value* const train = dataset == nullptr ? nullptr : dataset->mutable_dict().find("train");
  if (train == nullptr || !train->is_dict() || train->as_dict().size() != 1) return;
  const Value* const own = std::as_const(*train).find("cairn");
  if (own == nullptr) return;
  const Value kept = *own;
  dataset->mutable_dict().set("train", None{});
  dataset->mutable_dict().set("cairn", kept);
}

}  // namespace

bool saves_over_ranks(const State& state) {
  return !State::CheckpointForm::of(state).sharded_ckpt_prefix_dir.empty();
}

RankSaves::RankSaves()
    : table_(table_of_job()),
      kept_(std::make_shared<sharded::KeptPlan>()),
      number_(table_->number) {}
RankSaves::~RankSaves() = default;

bool RankSaves::is_first_of_another_machine() const {
  return table_->me.rank != 0 && table_->me.machine_leader == table_->me.rank;
}

void RankSaves::fill(SaveJob& job, const State& state, const SaveCheckpointOptions& what,
                     Logger* logger) {
  // The roll calls for planning and committing are numbered by the saves that every rank began. So
  // a save that failed on one rank before it met the others does not shift the numbers.
  constexpr std::int64_t kRollCalls = 2;
  const std::int64_t number = std::exchange(number_, number_ + kRollCalls);
  Value entries = what.weights_only ? state.model_state_dict() : state.state_dict();
  if (!what.weights_only) {
    add_newer_entries(entries);
    move_own_dataset_state(entries);
  }
  Value tree = Dict{{"state", std::move(entries)}};
  leave_out(tree, what.ignore_keys, dist::rank() == 0 ? logger : nullptr);
  RankSaveJob over_ranks{
      .path = job.path, .overwrite = job.replace != Replace::kNever, .puts_aside = job.puts_aside};
  if (!what.weights_only) over_ranks.own = {{"rng", rng_of_this_rank(state)}};
  over_ranks.replica = replica_of(state);
  over_ranks.kept = kept_;
  job.value = std::move(tree);
  // Rank 0 removes complete checkpoints.
  if (dist::rank() != 0) job.may_remove = is_machine_part;
  if (dist::rank() != 0 && !is_first_of_another_machine()) job.remove_afterwards.clear();
  job.is_of_all_ranks = true;
  job.write = [table = table_, number, over_ranks = std::move(over_ranks)](
                  ObjectStore& store, const SaveJob& save, const std::function<void()>& point) {
    RankSaveJob now = over_ranks;
    now.tree = save.value;
    now.far = save.far;
    now.point = point;
    table->number = number;
    return save_over_ranks(*table, store, now).bytes;
  };
}

}  // namespace cairn
