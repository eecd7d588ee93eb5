// Reads what a run has logged: from the file that its FileLogger writes or, if there is none, from
// its event files for TensorBoard.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cairn/storage/object_store.h"

#include "cli/runs/event_files.h"
#include "cli/runs/run_log_lines.h"
#include "cli/view/console.h"

namespace cairn::cli {

// Reads a log that may still be written, and later what was added to it.
class RunLogReader {
 public:
  // `place`: a file of FileLogger in any of its formats, an event file, or the folder of a run. In
  // a folder that is the file of rank 0, or the only log. A folder without a log counts if it has
  // event files, or if one folder directly in it has some. Reads nothing yet. Throws what
  // store_of() throws.
  explicit RunLogReader(const std::string& place);

  // Reads the lines that were added since the last call. Returns whether log() is another now. A
  // last line without an end is left for the next call. A log that is shorter than it was, or
  // begins with something else, is read anew. An unchanged log costs one call of the store,
  // or one list.
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
  bool read_added();
  void find();  // sets path_, and event_files_ if the log is event files
  bool is_continued(const ByteSource& source) const;
  bool read_from(const ByteSource& source);
  std::size_t take_lines(std::string_view text);
  void begin_anew();

  std::shared_ptr<ObjectStore> store_;
  std::string given_;
  std::string path_ = {};                                 // of the log, if there is one
  std::optional<EventFiles> event_files_ = std::nullopt;  // in place of a file
  std::optional<ObjectInfo> seen_ = std::nullopt;         // of the last update()
  RunLog log_ = {};
  RunLogLines lines_ = {};
  std::uint64_t next_ = 0;  // the offset of the first line that was not read
  std::string head_ = {};   // how the log began
  std::string tail_ = {};   // the bytes before `next_`
};

// Reads the log of a run once. Throws like RunLogReader.
RunLog read_run_log(const std::string& place);
// Whether a file of this name in the folder of a run is taken for its log.
bool is_log_name(std::string_view name);
// Whether RunLogReader would find a log in a folder.
bool has_run_log(const std::string& folder);
// Says on `err` which lines were passed over, if any.
void tell_passed_over(const RunLog& log, const Console& console);

}  // namespace cairn::cli
