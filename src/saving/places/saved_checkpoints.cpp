#include "saving/places/saved_checkpoints.h"

#include <algorithm>
#include <set>
#include <utility>

#include "cairn/error.h"

#include "saving/best_saves.h"
#include "saving/same_moment.h"

namespace cairn {
namespace {

constexpr std::string_view kKey = "all_saved_checkpoints_to_timestamp";
constexpr std::string_view kKeepBest = "keep_best";

// The values in a state that were saved with the same metric.
std::map<std::string, double> metrics_in(const Value& state, const std::optional<KeepBest>& best) {
  std::map<std::string, double> metrics;
  const Value* ranked = best && state.is_dict() ? state.find(kKeepBest) : nullptr;
  if (ranked == nullptr) return metrics;
  const Value* name = ranked->is_dict() ? ranked->find("metric") : nullptr;
  const Value* values = ranked->is_dict() ? ranked->find("values") : nullptr;
  if (name == nullptr || values == nullptr) throw UsageError("keep_best has no metric or values");
  if (name->as_str() != best->metric) return metrics;
  for (const Value& pair : values->as_items()) {
    const List& parts = pair.as_items();
    if (parts.size() != 2) throw UsageError("keep_best: a value is not a (path, float) pair");
    metrics.emplace(parts[0].as_str(), parts[1].as_float());
  }
  return metrics;
}

}  // namespace

void SavedCheckpoints::begin(const std::string& path, const Timestamp& timestamp,
                             std::optional<double> metric) {
  const auto old = std::ranges::find(entries_, path, &Entry::path);
  if (old != entries_.end()) {
    if (old->is_finished) replaced_.push_back(std::move(*old));
    entries_.erase(old);
  }
  entries_.push_back({.path = path, .timestamp = timestamp, .metric = metric});
}

void SavedCheckpoints::note_metric(const Timestamp& now, double metric) {
  if (entries_.empty() || !is_same_moment(entries_.back().timestamp, now)) return;
  entries_.back().metric = metric;
}

void SavedCheckpoints::finish(const std::string& path) {
  for (Entry& entry : entries_) {
    if (entry.path == path) entry.is_finished = true;
  }
  std::erase_if(replaced_, [&path](const Entry& entry) { return entry.path == path; });
}

void SavedCheckpoints::remove(const std::string& path) {
  const auto is_it = [&path](const Entry& entry) { return entry.path == path; };
  std::erase_if(entries_, is_it);
  std::erase_if(replaced_, is_it);
}

bool SavedCheckpoints::disown(const std::string& path) {
  const auto entry = std::ranges::find(entries_, path, &Entry::path);
  return entry != entries_.end() && std::exchange(entry->is_own, false);
}

void SavedCheckpoints::skip(const std::string& path) {
  std::erase_if(entries_,
                [&](const Entry& entry) { return entry.path == path && !entry.is_finished; });
  bring_back([&](const Entry& old) { return old.path == path; });
}

void SavedCheckpoints::drop_unfinished() {
  std::erase_if(entries_, [](const Entry& entry) { return !entry.is_finished; });
  bring_back([](const Entry& /*old*/) { return true; });
}

// A save that failed or was left out has replaced nothing, so the older entry counts again.
void SavedCheckpoints::bring_back(const std::function<bool(const Entry&)>& which) {
  for (Entry& old : replaced_) {
    if (!which(old)) continue;
    const auto is_newer = [&old](const Entry& entry) {
      return entry.timestamp.batch > old.timestamp.batch;
    };
    entries_.insert(std::ranges::find_if(entries_, is_newer), old);
  }
  std::erase_if(replaced_, which);
}

void SavedCheckpoints::adopt(const Find& find, const Predicate& exists) {
  std::set<std::string> own;
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if (entry->is_loaded && !std::exchange(entry->is_examined, true)) {
      if (auto path = find(entry->path, entry->timestamp)) {
        entry->path = std::move(*path);
        entry->is_own = true;
      }
    }
    // Two entries may now name one file, if it was saved before and after the folder was moved. The
    // newer entry counts.
    if (!own.insert(entry->path).second) entry->path.clear();
  }
  std::erase_if(entries_, [&exists](const Entry& entry) {
    return entry.path.empty() || (entry.is_finished && !exists(entry.path));
  });
}

bool SavedCheckpoints::is_saved_here(const std::string& path, const Timestamp& now) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.path == path && !entry.is_loaded && entry.timestamp.batch <= now.batch;
  });
}

bool SavedCheckpoints::is_saved_after(const std::string& path, const Timestamp& now) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.path == path && !entry.is_loaded && entry.timestamp.batch > now.batch;
  });
}

std::vector<std::string> SavedCheckpoints::superfluous(int keep) const {
  std::vector<const std::string*> own;
  std::vector<RankedSave> saves;
  for (const Entry& entry : entries_) {
    if (!entry.is_own) continue;
    own.push_back(&entry.path);
    // Removals wait for the newest: if it fails, nothing is removed.
    const bool is_newest = &entry == &entries_.back();
    saves.push_back({.metric = entry.metric, .is_pending = !entry.is_finished && !is_newest});
  }
  const std::vector<bool> is_best = kept_as_best(saves, best_);
  own.resize(own.size() - std::min(own.size(), static_cast<std::size_t>(keep)));
  std::vector<std::string> superfluous;
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (!is_best[i]) superfluous.push_back(*own[i]);
  }
  return superfluous;
}

std::map<std::string, Timestamp> SavedCheckpoints::loaded_among(
    const std::vector<std::string>& paths) const {
  std::map<std::string, Timestamp> loaded;
  for (const Entry& entry : entries_) {
    if (!entry.is_loaded || std::ranges::find(paths, entry.path) == paths.end()) continue;
    loaded.emplace(entry.path, entry.timestamp);
  }
  return loaded;
}

std::vector<std::pair<std::string, Timestamp>> SavedCheckpoints::finished() const {
  std::vector<std::pair<std::string, Timestamp>> found;
  for (const Entry& entry : entries_) {
    if (entry.is_own && entry.is_finished) found.emplace_back(entry.path, entry.timestamp);
  }
  return found;
}

std::vector<std::string> SavedCheckpoints::paths() const {
  std::vector<std::string> found;
  for (auto& [path, timestamp] : finished())
    found.push_back(std::move(path));
  return found;
}

std::vector<std::pair<std::string, double>> SavedCheckpoints::best() const {
  if (!best_) return {};
  std::vector<RankedSave> saves;
  for (const Entry& entry : entries_)
    saves.push_back(
        {.metric = entry.is_own ? entry.metric : std::nullopt, .is_pending = !entry.is_finished});
  std::vector<std::pair<std::string, double>> found;
  for (const std::size_t i : best_saves(saves, *best_))
    found.emplace_back(entries_[i].path, *entries_[i].metric);
  return found;
}

std::optional<SavedCheckpoints::Newest> SavedCheckpoints::newest() const {
  if (entries_.empty()) return std::nullopt;
  const Entry& newest = entries_.back();
  return Newest{newest.path, newest.timestamp, newest.metric};
}

Value SavedCheckpoints::state_dict() const {
  List pairs;
  List values;
  for (const Entry& entry : entries_) {
    pairs.emplace_back(Tuple{{entry.path, entry.timestamp.state_dict()}});
    if (entry.metric) values.emplace_back(Tuple{{entry.path, *entry.metric}});
  }
  Dict state{{kKey, std::move(pairs)}};
  if (best_) state.set(kKeepBest, Dict{{"metric", best_->metric}, {"values", std::move(values)}});
  return state;
}

void SavedCheckpoints::load_state_dict(const Value& state) {
  const Value* pairs = state.is_dict() ? state.find(kKey) : nullptr;
  const List none;  // Composer also accepts a state without the key.
  std::vector<Entry> loaded;
  try {
    const std::map<std::string, double> metrics = metrics_in(state, best_);
    for (const Value& pair : pairs == nullptr ? none : pairs->as_items()) {
      const List& parts = pair.as_items();
      if (parts.size() != 2) throw UsageError("an entry is not a (path, timestamp) pair");
      loaded.push_back({.path = parts[0].as_str(),
                        .timestamp = Timestamp::from_value(parts[1]),
                        .is_loaded = true,
                        .is_own = false,
                        .is_finished = true});
      const auto metric = metrics.find(loaded.back().path);
      if (metric != metrics.end()) loaded.back().metric = metric->second;
    }
  } catch (const UsageError& e) {
    throw MismatchError("all_saved_checkpoints_to_timestamp: " + std::string(e.what()));
  }
  const auto is_loaded = [](const Entry& entry) { return entry.is_loaded; };
  std::erase_if(entries_, is_loaded);
  std::erase_if(replaced_, is_loaded);
  for (Entry& entry : loaded) {
    remove(entry.path);
    entries_.push_back(std::move(entry));
  }
}

}  // namespace cairn
