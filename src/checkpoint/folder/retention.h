// Which checkpoints of a run to keep: the rules of `cairn prune`, as a function of what there is.
//
//  1. Checkpoints are judged in series: those of one run and kind. A series of weights never counts
//     as one that a run can go on from, nor one run's for another's. Only the rule `size` is for
//     all series together: they share a disk.
//  2. Within a series, checkpoints of one position in training (of several ranks, say) stay or go
//     together, and count as one.
//  3. Only good checkpoints with a position are chosen by rules. What is damaged, or has no
//     position, is kept, and takes nobody's place.
//  4. What a rule chooses is kept; with several rules, what any of them chooses.
//  5. Whatever the rules say: the newest good one of each series is kept, and what is pinned,
//     linked to, or being written, with all of its position.
//  6. While something damaged is as new as the newest good one of its series, or as anything at all
//     when it cannot tell its series, nothing is removed: the good ones may soon be needed.
//
// More of anything never removes more: a larger count, a further rule, a further pin only add to
// what is kept. What was kept is kept again when the rules are applied to what is left, unless time
// has passed (keep_within).
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cairn/time.h"

namespace cairn {

struct RetentionItem {
  std::string series = {};
  std::optional<Timestamp> timestamp = std::nullopt;
  std::chrono::system_clock::time_point made = {};
  std::chrono::sys_days day = {};  // the calendar day of `made`, where the user is
  std::uint64_t bytes = 0;
  bool is_good = true;
  std::string held_by = {};  // why it stays whatever the rules say: "pinned"; empty when nothing
  std::map<std::string, double> metrics = {};
};

enum class Best : std::uint8_t { kLowest, kHighest };

struct KeepBest {
  std::string metric;  // a key of RetentionItem::metrics
  std::uint64_t count = 1;
  Best best = Best::kLowest;
};

// Nothing is set: everything but what step 5 names goes.
struct RetentionRules {
  std::uint64_t last = 0;        // the furthest so many
  std::uint64_t size = 0;        // the newest files of all series, so many bytes in all
  std::uint64_t daily = 0;       // the furthest one of each of the last so many days that have one
  std::uint64_t weekly = 0;      // the same of weeks, which begin on Monday
  std::vector<Time> every = {};  // the first at or after each multiple; not of kDuration
  std::vector<KeepBest> best = {};  // those without the metric, or with NaN, are not chosen
  std::optional<std::chrono::seconds> within = std::nullopt;  // made so long before now, or later
};

struct Decision {
  bool keep = false;
  std::vector<std::string> reasons = {};  // "last 2 of 3"; at least one
};

struct RetentionPlan {
  std::vector<Decision> decisions = {};      // one an item, in the items' order
  std::vector<std::size_t> blocked_by = {};  // the damaged items of step 6 that keep all others
};

// UsageError for an interval that is not above zero, or a fraction of the run.
RetentionPlan decide(const std::vector<RetentionItem>& items, const RetentionRules& rules,
                     std::chrono::system_clock::time_point now);

}  // namespace cairn
