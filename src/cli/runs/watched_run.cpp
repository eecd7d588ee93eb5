#include "cli/runs/watched_run.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "cairn/error.h"

#include "checkpoint/folder/folders_below.h"
#include "cli/view/clock_text.h"
#include "core/text/json.h"
#include "core/text/json_text.h"
#include "io/files/lock_file.h"
#include "io/machine.h"
#include "storage/listing.h"
#include "storage/local/local_store.h"
#include "storage/place.h"

namespace cairn::cli {
namespace {

// The largest number of folders below a run's folder that each look lists.
constexpr std::size_t kMostFolders = 16;

bool is_further(const ListedCheckpoint& a, const ListedCheckpoint& b) {
  const auto batch = [](const ListedCheckpoint& listed) {
    return listed.info.timestamp ? listed.info.timestamp->batch : -1;
  };
  return std::pair(batch(a), a.modified) > std::pair(batch(b), b.modified);
}

// Whether the fit() of `span` took the lock, which it does when it begins. Other locks in the
// folder are those of other runs, or of earlier starts that were killed.
bool is_lock_of(const RunLockHolder& holder, const RunSpan& span) {
  constexpr std::chrono::minutes kMostBetween{10};
  return holder.started >= utc_time_text(span.begin - kMostBetween) &&
         holder.started <= utc_time_text(span.begin + kMostBetween);
}

// If there are too many, those that changed last: a run saves into them.
std::vector<std::string> chosen_below(ObjectStore& store, const std::vector<FolderBelow>& found) {
  std::vector<std::pair<LogTime, std::string>> folders;
  for (const FolderBelow& folder : found) {
    const bool may_be_left_out = found.size() > kMostFolders;
    const auto info = may_be_left_out ? store.stat(folder.path) : std::nullopt;
    folders.emplace_back(info ? info->modified : LogTime(), folder.path);
  }
  std::ranges::stable_sort(folders, std::ranges::greater(),
                           &std::pair<LogTime, std::string>::first);
  std::vector<std::string> chosen;
  for (auto& [modified, path] : folders) {
    if (chosen.size() < kMostFolders) chosen.push_back(std::move(path));
  }
  return chosen;
}

}  // namespace

WatchedRun::WatchedRun(const RunPlaces& places)
    : reader_(places.run),
      folder_(shown_place(places.checkpoints.empty() ? places.run : places.checkpoints)),
      store_(store_of(places.checkpoints.empty() ? places.run : places.checkpoints, nullptr)) {
  status_.name = shown_place(places.run);
}

bool WatchedRun::look() {
  std::string problem;
  // An error of one step does not keep the others from being done.
  const auto attempt = [&](void (WatchedRun::*step)()) {
    try {
      (this->*step)();
    } catch (const Error& error) {
      if (seen_.empty()) throw;
      if (problem.empty()) problem = error.what();
    }
  };
  attempt(&WatchedRun::look_at_log);
  attempt(&WatchedRun::look_at_folders);
  attempt(&WatchedRun::look_at_locks);
  if (!reader_.has_log() && count_checkpoints() == 0 && seen_.empty())
    throw NotFoundError("there is neither a log of FileLogger nor a checkpoint at " + status_.name);
  status_ = made_status();
  status_.problem = problem;
  std::string text = json_text(status_json(status_), -1);
  const bool has_changed = text != seen_;
  seen_ = std::move(text);
  return has_changed;
}

// A run that has only begun may have no log yet, and no folder.
void WatchedRun::look_at_log() {
  const bool had_log = reader_.has_log();
  try {
    reader_.update();
  } catch (const NotFoundError&) {
    if (had_log) throw;
  }
}

void WatchedRun::look_at_folders() {
  if (folders_.empty()) {
    if (!is_folder(*store_, folder_)) return;
    folders_.emplace_back(store_, folder_);
  }
  folders_.front().look();
  const bool may_be_others = folders_below_ > kMostFolders && !store_->may_be_far();
  if (may_be_others || count_checkpoints() == 0 || folders_.front().folders() != below_) {
    look_below();
  } else {
    for (std::size_t i = 1; i < folders_.size(); ++i)
      folders_[i].look();
  }
}

// The set of folders with checkpoints changes seldom, and finding it costs a list of each folder.
void WatchedRun::look_below() {
  below_ = folders_.front().folders();
  const FoldersBelow below = find_folders_below(*store_, folder_, below_);
  folders_below_ = below.found.size();
  std::vector<NewestCheckpoint> before(std::make_move_iterator(folders_.begin() + 1),
                                       std::make_move_iterator(folders_.end()));
  folders_.erase(folders_.begin() + 1, folders_.end());
  for (const std::string& path : chosen_below(*store_, below.found)) {
    const auto known = std::ranges::find(before, path, &NewestCheckpoint::folder);
    if (known == before.end()) {
      folders_.emplace_back(store_, path).look();
    } else {
      folders_.push_back(std::move(*known));
      folders_.back().look();
    }
  }
}

std::size_t WatchedRun::count_checkpoints() const {
  std::size_t count = 0;
  for (const NewestCheckpoint& looked : folders_)
    count += looked.count();
  return count;
}

// A lock is removed when its fit() ends, so a lock without a process is that of a killed run.
void WatchedRun::look_at_locks() {
  is_killed_ = false;
  const LocalFiles* const local = local_files_of(*store_);
  if (local == nullptr) return;
  const std::vector<RunSpan>& spans = reader_.log().spans;
  if (spans.empty() || spans.back().end != SpanEnd::kNone) return;
  bool is_left = false;
  for (const NewestCheckpoint& looked : folders_) {
    for (const RunLockFile& lock : list_run_locks(local->files(), looked.folder())) {
      if (!is_lock_of(lock.holder, spans.back())) continue;
      if (!has_ended_here(lock)) return;
      is_left = true;
    }
  }
  is_killed_ = is_left;
}

// Numbers of processes prove nothing: another container of the same host name has others. The
// kernel knows whether a process holds the lock. It is asked once about a holder that has ended,
// because asking may hold up a new start for an instant.
bool WatchedRun::has_ended_here(const RunLockFile& lock) {
  const RunLockHolder& holder = lock.holder;
  if (holder.pid == 0 || holder.host != node_name() || lock.is_alive_here) return false;
  const auto who = std::tuple(lock.path, holder.pid, holder.started);
  if (ended_.contains(who)) return true;
  if (state_of_lock(lock.path) != LockState::kFree) return false;
  ended_.insert(who);
  return true;
}

RunStatus WatchedRun::made_status() const {
  RunStatus status = {.name = status_.name,
                      .checkpoints = count_checkpoints(),
                      .folders_left_out = folders_below_ - std::min(folders_below_, kMostFolders)};
  if (reader_.has_log()) add_log(status, reader_.log(), is_killed_);
  for (const NewestCheckpoint& looked : folders_) {
    const auto& newest = looked.newest();
    if (newest && (!status.newest || is_further(*newest, *status.newest))) status.newest = newest;
  }
  if (!reader_.has_log() && status.newest && status.newest->info.timestamp)
    status.batch = status.newest->info.timestamp->batch;
  if (has_ended(status.state)) return status;
  if (reader_.has_log())
    status.last_sign = std::max(status.last_sign.value_or(LogTime()), reader_.modified());
  if (status.newest)
    status.last_sign = std::max(status.last_sign.value_or(LogTime()), status.newest->modified);
  return status;
}

}  // namespace cairn::cli
