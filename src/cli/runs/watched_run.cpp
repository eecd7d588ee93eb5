#include "cli/runs/watched_run.h"

#include <algorithm>
#include <utility>

#include "cairn/error.h"

#include "checkpoint/folder/folders_below.h"
#include "checkpoint/folder/run_lock.h"
#include "cli/view/clock_text.h"
#include "core/text/json.h"
#include "core/text/json_text.h"
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

bool has_ended_here(const RunLockFile& lock) {
  return lock.holder.pid != 0 && lock.holder.host == node_name() && !lock.is_alive_here;
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
  if (count_checkpoints() == 0 || folders_.front().folders() != below_) {
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
  folders_.erase(folders_.begin() + 1, folders_.end());
  for (const FolderBelow& found : below.found) {
    if (folders_.size() > kMostFolders) break;
    folders_.emplace_back(store_, found.path).look();
  }
}

std::size_t WatchedRun::count_checkpoints() const {
  std::size_t count = 0;
  for (const NewestCheckpoint& looked : folders_)
    count += looked.count();
  return count;
}

// A lock is removed when its fit() ends. One that an earlier start of the run left began before
// that start logged its last line.
void WatchedRun::look_at_locks() {
  is_killed_ = false;
  const LocalFiles* const local = local_files_of(*store_);
  if (local == nullptr) return;
  const std::vector<RunSpan>& spans = reader_.log().spans;
  if (spans.empty() || !spans.back().end.empty()) return;
  const std::string before = spans.size() > 1 ? utc_time_text(spans[spans.size() - 2].last) : "";
  bool is_left = false;
  for (const NewestCheckpoint& looked : folders_) {
    for (const RunLockFile& lock : list_run_locks(local->files(), looked.folder())) {
      if (!has_ended_here(lock)) return;
      is_left = is_left || lock.holder.started > before;
    }
  }
  is_killed_ = is_left;
}

RunStatus WatchedRun::made_status() const {
  RunStatus status = {.name = status_.name, .checkpoints = count_checkpoints()};
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
