// One checkpoint to go on from, for all ranks, also where each sees another folder.
// agree_over_ranks.cpp opens with the protocol.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/ranks/roll_call.h"

namespace cairn {

// One that a rank can go on from: it is there for this rank, and what it needs of it is whole.
struct SeenCheckpoint {
  std::string name = {};  // the same on all ranks: "ep1-ba20"
  // What says which is the furthest: epoch, batch. Compared in their order; of equal length.
  std::vector<std::int64_t> order = {};
  // What tells two of one name apart: the hash of a `.metadata`, an attempt. The same on all ranks
  // that have the same checkpoint.
  std::string identity = {};
  // Whether this rank sees what makes it one, `.metadata`; false for a machine that has parts
  // alone. What nobody sees that of was never published.
  bool is_published = true;
};

struct AgreeJob {
  std::string what = "resuming";  // for messages
  // What this rank sees, the furthest first. May take long: it calls `move_on` at least every
  // second meanwhile. Gives a bounded number (those that retention keeps). Errors are those of all.
  std::function<std::vector<SeenCheckpoint>(const std::function<void()>& move_on)> look = nullptr;
};

// The furthest that all ranks see and one sees published; nullopt when no rank sees any published.
// On all ranks the same, or the same error: RankFailure for a rank that does not come; what `look`
// throws; UsageError when they see checkpoints and have none in common. Works for any number of
// ranks, whatever number saved.
std::optional<SeenCheckpoint> agree_over_ranks(RankTable& table, const AgreeJob& job);

}  // namespace cairn
