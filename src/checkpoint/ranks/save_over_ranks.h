// Writes a checkpoint in the layout of torch.distributed.checkpoint from all ranks of a job
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

// All ranks give the same job, except for their parts of the state.
struct RankSaveJob {
  std::string path = {};    // of the folder; each rank resolves a relative path itself
  bool overwrite = false;   // as in RankCommitJob
  bool puts_aside = false;  // as in RankCommitJob
  // This rank's state: tensors, whole or with a `part`, and other values. If several ranks have a
  // part, one of them writes it (sharded/global_plan.h). The state must not change until the save
  // is done.
  Value tree = {};
  // Values that only this rank has: each becomes item number `rank` of the list with that name,
  // such as ("rng", its state).
  std::vector<std::pair<std::string, Value>> own = {};
  // for hybrid sharding; the first replica writes parts that several replicas have
  std::uint32_t replica = 0;
  std::size_t files = 1;  // the largest number of files of each rank
  // For a caller that saves repeatedly: this rank's kept plan, used by one thread at a time. Null:
  // nothing is kept.
  std::shared_ptr<sharded::KeptPlan> kept = nullptr;
  FarWrite far = {};                      // only rank 0 calls its check
  std::function<void()> point = nullptr;  // as in RankCommitJob
};

// Returns on all ranks when the whole checkpoint is durable and published. Throws what
// commit_over_ranks() throws. Also throws UsageError for parts that do not form one state, and
// RankFailure with UnsupportedError's message for values that such a folder cannot hold.
RankCommitReport save_over_ranks(RankTable& table, ObjectStore& store, const RankSaveJob& job);

}  // namespace cairn
