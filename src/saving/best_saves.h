// Ranks saves by a metric, for rotations that keep the best ones beside the newest.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cairn/checkpoint/keep_best.h"

namespace cairn {

struct RankedSave {
  std::optional<double> metric;  // nullopt, or NaN: it has no rank.
  bool is_pending = false;       // It may still fail.
};

// Throws UsageError for an invalid `best`, and resolves kAuto. `option`: its name, for messages.
KeepBest checked_keep_best(KeepBest best, const std::string& option);

// The indices of the best saves, the best first: at most best.count. `saves` are in the order of
// training; of equal values the later one is better. Pending saves are passed over.
std::vector<std::size_t> best_saves(const std::vector<RankedSave>& saves, const KeepBest& best);

// For each save, whether `best` keeps it. A pending save may still fail: it takes no place of
// another one, and is kept if it has a rank. nullopt keeps none.
std::vector<bool> kept_as_best(const std::vector<RankedSave>& saves,
                               const std::optional<KeepBest>& best);

}  // namespace cairn
