#include "checkpoint/folder/retention.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <tuple>

#include "cairn/error.h"

#include "checkpoint/open/training_info.h"
#include "core/text/size_text.h"

namespace cairn {
namespace {

using Clock = std::chrono::system_clock;

// Good checkpoints of one position. The rules choose among groups.
struct Group {
  Timestamp timestamp;
  std::vector<const RetentionItem*> items;
  std::vector<std::string> reasons;

  Clock::time_point made() const { return newest().made; }
  std::chrono::sys_days day() const { return newest().day; }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const RetentionItem* item : items) {
      sum += item->bytes;
    }
    return sum;
  }
  std::optional<double> metric(const std::string& name) const {
    for (const RetentionItem* item : items) {
      const auto found = item->metrics.find(name);
      if (found != item->metrics.end() && !std::isnan(found->second)) return found->second;
    }
    return std::nullopt;
  }

 private:
  const RetentionItem& newest() const {
    return **std::max_element(
        items.begin(), items.end(),
        [](const RetentionItem* a, const RetentionItem* b) { return a->made < b->made; });
  }
};

using Series = std::vector<Group>;  // furthest first

std::map<std::string, Series> series_of(const std::vector<RetentionItem>& items) {
  using Position = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  std::map<std::string, std::map<Position, Group, std::greater<>>> groups;
  for (const RetentionItem& item : items) {
    if (!item.is_good || !item.timestamp) continue;
    Group& group = groups[item.series][position(*item.timestamp)];
    if (group.items.empty()) group.timestamp = *item.timestamp;
    group.items.push_back(&item);
  }
  std::map<std::string, Series> all;
  for (auto& [name, by_position] : groups) {
    for (auto& entry : by_position) {
      all[name].push_back(std::move(entry.second));
    }
  }
  return all;
}

void keep_last(Series& series, std::uint64_t count) {
  for (std::size_t i = 0; i < std::min<std::uint64_t>(series.size(), count); ++i) {
    series[i].reasons.push_back(fmt::format("last {} of {}", i + 1, count));
  }
}

std::string day_text(std::chrono::sys_days day) {
  const std::chrono::year_month_day date = day;
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
}

std::chrono::sys_days monday_of(std::chrono::sys_days day) {
  return day - (std::chrono::weekday(day) - std::chrono::Monday);
}

// Keeps the furthest group of each of the last `count` periods that have a group. `period_of` gives
// the first day of the period of a day.
template <class PeriodOf>
void keep_periods(Series& series, std::uint64_t count, const char* name, PeriodOf period_of) {
  std::map<std::chrono::sys_days, Group*, std::greater<>> furthest;  // the latest period first
  for (Group& group : series) {
    furthest.try_emplace(period_of(group.day()), &group);
  }
  for (const auto& [period, group] : furthest) {
    if (count-- == 0) break;
    group->reasons.push_back(std::string(name) + " " + day_text(period));
  }
}

void keep_every(Series& series, const Time& interval) {
  std::set<std::int64_t> seen;
  for (auto group = series.rbegin(); group != series.rend(); ++group) {
    const std::int64_t multiple =
        group->timestamp.get(interval.unit()).value() / interval.value() * interval.value();
    if (multiple > 0 && seen.insert(multiple).second) {
      group->reasons.push_back("first at or after " + Time(multiple, interval.unit()).to_string());
    }
  }
}

void keep_best(Series& series, const BestRule& rule) {
  std::vector<std::pair<double, Group*>> ranking;
  for (Group& group : series) {
    const auto value = group.metric(rule.metric);
    if (value) ranking.emplace_back(rule.best == Best::kLowest ? *value : -*value, &group);
  }
  // If values are equal, the furthest group is better. In `ranking` that group is already first.
  std::stable_sort(ranking.begin(), ranking.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t i = 0; i < std::min<std::uint64_t>(ranking.size(), rule.count); ++i) {
    ranking[i].second->reasons.push_back(fmt::format("best {} of {} by {}: {:.6g}", i + 1,
                                                     rule.count, rule.metric,
                                                     *ranking[i].second->metric(rule.metric)));
  }
}

void keep_within(Series& series, std::chrono::seconds age, Clock::time_point now) {
  for (Group& group : series) {
    // Compares whole seconds, because system_clock's own unit would overflow for an age of
    // centuries.
    const auto since = std::chrono::floor<std::chrono::seconds>(now - group.made());
    if (since <= age) group.reasons.emplace_back("recent enough");
  }
}

// If one item of a group is held, keeps the whole group. Otherwise the rest of the group could take
// another group's place the next time.
void keep_held(Series& series) {
  for (Group& group : series) {
    const auto held = std::ranges::find_if(
        group.items, [](const RetentionItem* item) { return !item->held_by.empty(); });
    if (held != group.items.end()) group.reasons.push_back((*held)->held_by);
  }
}

void apply(Series& series, const RetentionRules& rules, Clock::time_point now) {
  series.front().reasons.emplace_back("the newest good one");
  keep_last(series, rules.last);
  keep_periods(series, rules.daily, "daily", [](std::chrono::sys_days day) { return day; });
  keep_periods(series, rules.weekly, "weekly", monday_of);
  for (const Time& interval : rules.every) {
    keep_every(series, interval);
  }
  for (const BestRule& rule : rules.best) {
    keep_best(series, rule);
  }
  if (rules.within) keep_within(series, *rules.within, now);
  keep_held(series);
}

// Keeps the newest files of all series together, since they share a disk. Stops at the first group
// that does not fit, so that a larger size keeps the same groups and more.
void keep_size(std::map<std::string, Series>& all, std::uint64_t size) {
  std::vector<Group*> newest;
  for (auto& [name, series] : all) {
    for (Group& group : series) {
      newest.push_back(&group);
    }
  }
  std::stable_sort(newest.begin(), newest.end(), [](const Group* a, const Group* b) {
    if (a->made() != b->made()) return a->made() > b->made();
    return position(a->timestamp) > position(b->timestamp);
  });
  std::uint64_t used = 0;
  for (Group* group : newest) {
    if (group->bytes() > size - used) return;
    used += group->bytes();
    group->reasons.push_back(fmt::format("the newest {} of {}", size_text(used), size_text(size)));
  }
}

// Step 6: whether `item` is damaged, and perhaps newer than all good items of the series.
bool is_blocking(const RetentionItem& item, const std::string& name, const Series& series) {
  if (item.is_good) return false;
  const Group& newest = series.front();
  if (!item.timestamp) return item.made >= newest.made();
  return item.series == name &&
         (item.made >= newest.made() || position(*item.timestamp) >= position(newest.timestamp));
}

void check(const RetentionRules& rules) {
  for (const Time& interval : rules.every) {
    if (interval.unit() == TimeUnit::kDuration || interval <= 0) {
      throw UsageError("cannot keep one checkpoint every " + interval.to_string() +
                       ": the interval is a count above zero, such as 1000ba or 1ep");
    }
  }
}

Decision decision_of(const RetentionItem& item, const Group* group, bool is_blocked) {
  Decision decision;
  if (group != nullptr) decision.reasons = group->reasons;
  const bool is_told = std::ranges::find(decision.reasons, item.held_by) != decision.reasons.end();
  if (!item.held_by.empty() && !is_told) decision.reasons.push_back(item.held_by);
  if (!item.is_good) {
    decision.reasons.emplace_back("it does not verify, so no rule applies to it");
  } else if (!item.timestamp) {
    decision.reasons.emplace_back("it has no position in training");
  }
  if (decision.reasons.empty() && is_blocked) {
    decision.reasons.emplace_back("nothing is removed while a newer one does not verify");
  }
  decision.keep = !decision.reasons.empty();
  if (!decision.keep) decision.reasons.emplace_back("no rule keeps it");
  return decision;
}

}  // namespace

std::optional<Best> best_by_name(const std::string& metric) {
  std::string name = metric.substr(metric.rfind('/') + 1);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto has = [&name](const char* word) { return name.find(word) != std::string::npos; };
  constexpr std::array kLow = {"loss", "entropy", "error", "perplexity", "mse", "mae"};
  constexpr std::array kHigh = {"acc",     "f1",   "auroc", "precision", "recall", "iou",
                                "jaccard", "dice", "bleu",  "rouge",     "psnr"};
  if (std::any_of(kLow.begin(), kLow.end(), has)) return Best::kLowest;
  if (std::any_of(kHigh.begin(), kHigh.end(), has)) return Best::kHighest;
  return std::nullopt;
}

RetentionPlan decide(const std::vector<RetentionItem>& items, const RetentionRules& rules,
                     Clock::time_point now) {
  check(rules);
  std::map<std::string, Series> all = series_of(items);
  std::map<const RetentionItem*, const Group*> group_of;
  std::set<std::string> blocked;
  std::set<std::size_t> blocking;
  for (auto& [name, series] : all) {
    apply(series, rules, now);
    for (const Group& group : series) {
      for (const RetentionItem* item : group.items) {
        group_of.emplace(item, &group);
      }
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (!is_blocking(items[i], name, series)) continue;
      blocked.insert(name);
      blocking.insert(i);
    }
  }
  if (rules.size > 0) keep_size(all, rules.size);
  RetentionPlan plan;
  for (const RetentionItem& item : items) {
    const auto group = group_of.find(&item);
    plan.decisions.push_back(decision_of(item, group == group_of.end() ? nullptr : group->second,
                                         blocked.contains(item.series)));
  }
  plan.blocked_by.assign(blocking.begin(), blocking.end());
  return plan;
}

}  // namespace cairn
