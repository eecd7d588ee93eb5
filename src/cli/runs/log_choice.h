// Finds the log of a run in its folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cairn/storage/object_store.h"

#include "cli/runs/run_log_lines.h"

namespace cairn::cli {

// Where a log is.
struct LogPlace {
  std::string path = {};  // a file of FileLogger; for event files one of them, or their folder
  LogKind kind = LogKind::kLines;
  bool is_one_event_file = false;
  bool may_be_surpassed = false;  // a better log may appear: rank 0's, or one of FileLogger
};

// Whether a file of this name in the folder of a run is taken for its log.
bool is_log_name(std::string_view name);

// The logs that may be meant by `folder`. Empty: there is none.
//
//  1. A file with the name of rank 0's log counts alone.
//  2. Next come files of FileLogger, recognised by their first lines. A data set is none. If all
//     are of other ranks, only the first one counts.
//  3. Without these, folders with event files count: `folder`, or else those directly in it.
//
// Throws StorageError.
std::vector<LogPlace> find_logs(ObjectStore& store, const std::string& folder);

// The one log that `folder` has. Throws NotFoundError if there is none, UsageError if there are
// several, and StorageError.
LogPlace find_log(ObjectStore& store, const std::string& folder);

}  // namespace cairn::cli
