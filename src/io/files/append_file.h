// A text file that grows line by line and survives restarts of its program: a log.
#pragma once

#include <string>
#include <string_view>

#include "io/file_descriptor.h"

namespace cairn {

// When append() returns, the kernel has the bytes: they survive the process, but not necessarily a
// power cut.
class AppendFile {
 public:
  // Opens or creates `path`, with missing folders. Begins a new line if an earlier writer was
  // killed inside one. `truncate` empties the file first. Throws StorageError.
  explicit AppendFile(std::string path, bool truncate = false);

  void append(std::string_view text);  // throws StorageError

 private:
  std::string path_;
  FileDescriptor file_;
};

}  // namespace cairn
