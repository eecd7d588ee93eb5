// A checkpoint in the layout of torch.distributed.checkpoint that all ranks of a job write
// together. save_over_ranks.cpp opens with the protocol.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cairn/storage/object_store.h"
#include "cairn/value.h"

#include "checkpoint/plan/save_job.h"
#include "checkpoint/ranks/commit_over_ranks.h"

namespace cairn {

namespace sharded {
class KeptPlan;
}

// The same on all ranks, but for what each has.
struct RankSaveJob {
  std::string path = {};    // of the folder; relative ones are each rank's own
  bool overwrite = false;   // RankCommitJob's
  bool puts_aside = false;  // that, too
  // What this rank has: tensors, whole or with a `part`, and anything else. Of what several have
  // one writes each (sharded/global_plan.h). Not to change until the save is done.
  Value tree = {};
  // What is this rank's alone, as item number `rank` of the list of that name: ("rng", its state).
  std::vector<std::pair<std::string, Value>> own = {};
  std::uint32_t replica = 0;  // of hybrid sharding: parts that several have are the first one's
  std::size_t files = 1;      // of each rank, at most
  // Of whoever saves again and again: this rank's, and one thread's at a time. Null: nothing is
  // kept.
  std::shared_ptr<sharded::KeptPlan> kept = nullptr;
  FarWrite far = {};                      // rank 0 alone calls its check
  std::function<void()> point = nullptr;  // RankCommitJob's
};

// Returns when the whole checkpoint is durable and published, on all ranks. As
// commit_over_ranks(), and UsageError too for parts that make no state together,
// UnsupportedError's message in a RankFailure for what such a folder cannot hold.
RankCommitReport save_over_ranks(RankTable& table, ObjectStore& store, const RankSaveJob& job);

}  // namespace cairn
