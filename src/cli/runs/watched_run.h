// Looks at a run again and again while it trains, from its log and its folders alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "checkpoint/folder/run_lock.h"
#include "cli/runs/newest_checkpoint.h"
#include "cli/runs/run_log.h"
#include "cli/runs/run_places.h"
#include "cli/runs/run_status.h"

namespace cairn::cli {

class WatchedRun {
 public:
  // Reads nothing yet. Throws what store_of() throws.
  explicit WatchedRun(const RunPlaces& places);

  // Looks at the run. Returns whether status() is another now.
  //
  // Until a first look succeeds, throws NotFoundError if there is neither a log nor a checkpoint,
  // and what RunLogReader and list_checkpoints() throw. An error of a later look is no end of the
  // run: it is status().problem, and the rest stays as it was.
  bool look();

  const RunStatus& status() const { return status_; }
  // nullptr: no log was found yet.
  const RunLog* log() const { return reader_.has_log() ? &reader_.log() : nullptr; }
  // Whether a look may need a network.
  bool is_far() const { return reader_.is_far() || store_->may_be_far(); }

 private:
  void look_at_log();
  void look_at_folders();
  void look_below();
  void look_at_locks();
  bool has_ended_here(const RunLockFile& lock);
  std::size_t count_checkpoints() const;
  RunStatus made_status() const;

  RunLogReader reader_;
  std::string folder_;  // of the checkpoints, as messages name it; a log if `store_` has no folder
  std::shared_ptr<ObjectStore> store_;          // of `folder_`
  std::vector<NewestCheckpoint> folders_ = {};  // `folder_`, and those below it
  std::vector<std::string> below_ = {};         // names in `folder_` that were looked below
  std::size_t folders_below_ = 0;  // with checkpoints, also those that are not looked into
  bool is_killed_ = false;         // the process of the last fit() has ended without a word
  // Holders of locks that have ended: path, process, start.
  std::set<std::tuple<std::string, std::int64_t, std::string>> ended_ = {};
  std::string seen_ = {};  // status_ as text, to notice changes
  RunStatus status_ = {};
};

}  // namespace cairn::cli
