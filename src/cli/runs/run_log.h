// Reads what a run has logged: from the file that its FileLogger writes or, if there is none, from
// its event files for TensorBoard.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cairn/storage/object_store.h"

#include "cli/runs/event_files.h"
#include "cli/runs/log_choice.h"
#include "cli/runs/run_log_file.h"
#include "cli/runs/run_log_lines.h"
#include "cli/view/console.h"

namespace cairn::cli {

// Reads a log that may still be written, and later what was added to it.
class RunLogReader {
 public:
  // `place`: a file of FileLogger in any of its formats, an event file, or the folder of a run, in
  // which find_log() finds the log. Reads nothing yet. Throws what store_of() throws.
  explicit RunLogReader(const std::string& place);

  // Reads what was added since the last call. Returns whether log() is another now. A better log
  // that appears in the folder replaces the one that was read. An unchanged log costs one call of
  // the store, or one list; one that may be surpassed costs a list more.
  //
  // Throws NotFoundError; UsageError for a file that is no log, or a folder with several;
  // StorageError. After an error log() is as good as before, and update() may be called again.
  bool update();
  const RunLog& log() const { return log_; }
  // Whether an update() has found the log.
  bool has_log() const { return !log_.path.empty(); }
  // Whether an update() may need a network.
  bool is_far() const { return store_->may_be_far(); }
  // When something last wrote to the log, by the clock of its store.
  LogTime modified() const;

 private:
  LogPlace find() const;
  std::optional<LogPlace> better_place() const;
  void begin(const LogPlace& place);

  std::shared_ptr<ObjectStore> store_;
  std::string given_;
  LogPlace place_ = {};  // of the log, if there is one
  // One of these reads it.
  std::optional<RunLogFile> file_ = std::nullopt;
  std::optional<EventFiles> event_files_ = std::nullopt;
  RunLog log_ = {};
};

// Reads the log of a run once. Throws like RunLogReader.
RunLog read_run_log(const std::string& place);
// Whether a folder has a log of its own. Event files in several folders are those of other runs.
bool has_run_log(const std::string& folder);
// Says on `err` which lines were passed over, if any.
void tell_passed_over(const RunLog& log, const Console& console);

}  // namespace cairn::cli
