// Reads the file that a FileLogger writes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cairn/storage/object_store.h"

#include "cli/runs/run_log_lines.h"

namespace cairn::cli {

// Whether nothing has written to an object between two looks at it.
inline bool is_unchanged(const ObjectInfo& before, const ObjectInfo& now) {
  return before.size == now.size && before.modified == now.modified &&
         before.version == now.version;
}

class RunLogFile {
 public:
  RunLogFile(std::shared_ptr<ObjectStore> store, std::string path)
      : store_(std::move(store)), path_(std::move(path)) {}

  // Adds to `log` the lines that were added since the last call, and returns whether it changed. It
  // must be the same log each time. A last line without an end is left for the next call. A line
  // that is longer than 64 MiB is passed over. A file that is shorter than it was, or begins with
  // something else, is read anew. An unchanged file costs one call of the store.
  //
  // Throws NotFoundError; UsageError for a file that is no log; StorageError. After an error `log`
  // is as good as before, or has some lines more, and the next call goes on from there.
  bool update(RunLog& log);
  // When something last wrote to the file, by the clock of its store.
  LogTime modified() const { return seen_ ? seen_->modified : LogTime(); }

 private:
  bool read_added(RunLog& log);
  bool is_continued(const ByteSource& source) const;
  bool read_from(const ByteSource& source, RunLog& log);
  bool take_lines(std::string_view text, RunLog& log);
  void pass_long_line(std::string_view text);
  void advance(std::string_view text);

  std::shared_ptr<ObjectStore> store_;
  std::string path_;
  std::optional<ObjectInfo> seen_ = std::nullopt;  // of the last update()
  RunLogLines lines_ = {};
  std::uint64_t next_ = 0;        // the offset of the first byte that was not read
  bool is_in_long_line_ = false;  // at `next_`: the rest of the line is passed over, too
  std::string head_ = {};         // how the log began
  std::string tail_ = {};         // the bytes before `next_`
};

}  // namespace cairn::cli
