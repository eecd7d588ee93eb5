// What the processes of a job agree on, beside what they compute.
#pragma once

#include <optional>
#include <string>

#include "cairn/value.h"

#include "train/loop/loop_context.h"

namespace cairn {

// Of TrainerOptions::ddp_sync_strategy; nullopt for another word.
std::optional<SyncStrategy> find_sync_strategy(const std::string& name);

// Of a checkpoint's "rng" list, which has an entry for each rank, one with this rank's alone;
// nullopt when it has none.
std::optional<Value> rng_of_rank(std::optional<Value> states);

// What one rank says of something that all of them do.
struct RankOutcome {
  enum Kind { kOk, kPassOver, kFailed };
  Kind kind = kOk;
  std::string why = {};
};

// The worst of what all ranks say, and the first rank that says it.
struct AgreedOutcome {
  RankOutcome outcome = {};
  std::int64_t rank = 0;
  bool is_ok_anywhere = false;
};
AgreedOutcome agree_on(const RankOutcome& own);

}  // namespace cairn
