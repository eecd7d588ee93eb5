// A text file that grows line by line and survives restarts of its program: a log.
#pragma once

#include <string>
#include <string_view>

#include "io/file_descriptor.h"

namespace cairn {

// What append() wrote is the kernel's when it returns: it survives the process, though not
// necessarily a power cut.
class AppendFile {
 public:
  // Opens or creates `path`, with missing folders. Begins a fresh line when a writer was killed
  // inside one. `truncate` empties the file first. StorageError.
  explicit AppendFile(std::string path, bool truncate = false);

  void append(std::string_view text);  // StorageError

 private:
  std::string path_;
  FileDescriptor file_;
};

}  // namespace cairn
