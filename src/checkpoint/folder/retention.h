// Decides which checkpoints of a run to keep: the rules of `cairn prune`, as a pure function of the
// existing checkpoints.
//
//  1. Checkpoints are judged in series: those of one run and kind. So weights never count as a
//     checkpoint to resume from, nor does a checkpoint of another run. Only the rule `size` applies
//     to all series together, because they share a disk.
//  2. Within a series, checkpoints of one position in training (of several ranks, for example) are
//     kept or removed together, and count as one.
//  3. Rules choose only among good checkpoints with a position. A checkpoint that is damaged or has
//     no position is kept, and does not take the place of another checkpoint in a rule.
//  4. A checkpoint is kept if any rule chooses it.
//  5. Whatever the rules say, the newest good checkpoint of each series is kept. So are checkpoints
//     that are pinned, linked to or being written, with all others of their position.
//  6. Nothing of a series is removed while a damaged checkpoint is as new as the newest good one of
//     its series: the good ones may soon be needed. A damaged checkpoint whose series is not known
//     counts for each series in which no good one is newer.
//
// More of anything never removes more: a larger count, a further rule or a further pin only adds to
// what is kept. If the rules are applied again to the kept checkpoints, all of them are kept again,
// unless time has passed (`within`).
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
  std::chrono::sys_days day = {};  // the calendar day of `made` in the user's time zone
  std::uint64_t bytes = 0;
  bool is_good = true;
  std::string held_by = {};  // why it is kept whatever the rules say: "pinned"; else empty
  std::map<std::string, double> metrics = {};
};

enum class Best : std::uint8_t { kLowest, kHighest };

// By the name of a metric ("eval/CrossEntropy": kLowest). nullopt: the name does not tell.
std::optional<Best> best_by_name(const std::string& metric);

struct BestRule {
  std::string metric;  // a key of RetentionItem::metrics
  std::uint64_t count = 1;
  Best best = Best::kLowest;
};

// With no rule set, only the checkpoints of steps 3, 5 and 6 are kept.
struct RetentionRules {
  std::uint64_t last = 0;           // this number of furthest checkpoints
  std::uint64_t size = 0;           // the newest files of all series, at most this many bytes
  std::uint64_t daily = 0;          // the furthest of each of this many latest days that have one
  std::uint64_t weekly = 0;         // the same for weeks, which begin on Monday
  std::vector<Time> every = {};     // the first at or after each multiple; never kDuration
  std::vector<BestRule> best = {};  // checkpoints without the metric, or with NaN, are not chosen
  std::optional<std::chrono::seconds> within = std::nullopt;  // made at most this long ago
};

struct Decision {
  bool keep = false;
  std::vector<std::string> reasons = {};  // at least one: "last 2 of 3"
};

struct RetentionPlan {
  std::vector<Decision> decisions = {};      // one for each item, in their order
  std::vector<std::size_t> blocked_by = {};  // the damaged items that keep others by step 6
};

// Throws UsageError for an interval that is not above zero, or that is a fraction of the run.
RetentionPlan decide(const std::vector<RetentionItem>& items, const RetentionRules& rules,
                     std::chrono::system_clock::time_point now);

}  // namespace cairn
