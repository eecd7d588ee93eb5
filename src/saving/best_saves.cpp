#include "saving/best_saves.h"

#include <algorithm>
#include <cmath>

#include "cairn/error.h"

#include "checkpoint/folder/retention.h"

namespace cairn {
namespace {

bool has_rank(const RankedSave& save) { return save.metric && !std::isnan(*save.metric); }

}  // namespace

KeepBest checked_keep_best(KeepBest best, const std::string& option) {
  if (best.metric.empty()) throw UsageError(option + " needs the name of a metric");
  if (best.count < 1) {
    throw UsageError(option + ": count must be at least 1, not " + std::to_string(best.count));
  }
  const auto mode = best.mode.value();
  if (!mode) throw UsageError(option + ": mode is \"" + best.mode + "\"; give min, max or auto");
  if (*mode != BestMode::kAuto) return best;
  const auto by_name = best_by_name(best.metric);
  if (!by_name) {
    throw UsageError(option + ": whether a low or a high " + best.metric +
                     " is good does not follow from its name: set mode to min or max");
  }
  best.mode = *by_name == Best::kLowest ? BestMode::kMin : BestMode::kMax;
  return best;
}

std::vector<std::size_t> best_saves(const std::vector<RankedSave>& saves, const KeepBest& best) {
  std::vector<std::size_t> ranking;
  for (std::size_t i = saves.size(); i > 0; --i) {
    if (has_rank(saves[i - 1]) && !saves[i - 1].is_pending) ranking.push_back(i - 1);
  }
  const bool is_low_good = best.mode == BestMode::kMin;
  std::ranges::stable_sort(ranking, [&](std::size_t one, std::size_t other) {
    const double a = *saves[one].metric;
    const double b = *saves[other].metric;
    return is_low_good ? a < b : a > b;
  });
  ranking.resize(std::min(ranking.size(), static_cast<std::size_t>(best.count)));
  return ranking;
}

std::vector<bool> kept_as_best(const std::vector<RankedSave>& saves,
                               const std::optional<KeepBest>& best) {
  std::vector<bool> is_kept(saves.size());
  if (!best) return is_kept;
  for (std::size_t i = 0; i < saves.size(); ++i)
    is_kept[i] = saves[i].is_pending && has_rank(saves[i]);
  for (const std::size_t i : best_saves(saves, *best))
    is_kept[i] = true;
  return is_kept;
}

}  // namespace cairn
