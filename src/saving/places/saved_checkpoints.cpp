#include "saving/places/saved_checkpoints.h"

#include <algorithm>
#include <set>
#include <utility>

#include "cairn/error.h"

namespace cairn {
namespace {

constexpr std::string_view kKey = "all_saved_checkpoints_to_timestamp";

}  // namespace

void SavedCheckpoints::begin(const std::string& path, const Timestamp& timestamp) {
  const auto old = std::ranges::find(entries_, path, &Entry::path);
  if (old != entries_.end()) {
    if (old->is_finished) replaced_.push_back(std::move(*old));
    entries_.erase(old);
  }
  entries_.push_back({.path = path, .timestamp = timestamp});
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
  std::vector<std::string> own;
  for (const Entry& entry : entries_) {
    if (entry.is_own) own.push_back(entry.path);
  }
  own.resize(own.size() - std::min(own.size(), static_cast<std::size_t>(keep)));
  return own;
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

std::optional<std::pair<std::string, Timestamp>> SavedCheckpoints::newest() const {
  if (entries_.empty()) return std::nullopt;
  return std::pair(entries_.back().path, entries_.back().timestamp);
}

Value SavedCheckpoints::state_dict() const {
  List pairs;
  for (const Entry& entry : entries_) {
    pairs.emplace_back(Tuple{{entry.path, entry.timestamp.state_dict()}});
  }
  return Dict{{kKey, std::move(pairs)}};
}

void SavedCheckpoints::load_state_dict(const Value& state) {
  const Value* pairs = state.is_dict() ? state.find(kKey) : nullptr;
  const List none;  // Composer also accepts a state without the key.
  std::vector<Entry> loaded;
  try {
    for (const Value& pair : pairs == nullptr ? none : pairs->as_items()) {
      const List& parts = pair.as_items();
      if (parts.size() != 2) throw UsageError("an entry is not a (path, timestamp) pair");
      loaded.push_back({.path = parts[0].as_str(),
                        .timestamp = Timestamp::from_value(parts[1]),
                        .is_loaded = true,
                        .is_own = false,
                        .is_finished = true});
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
