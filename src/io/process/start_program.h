// Starts another program that runs on by itself, with this process's terminal, or with its output
// in files.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "io/file_descriptor.h"

namespace cairn {

// An unnamed file for the output of programs. It is gone with this object.
class KeptOutput {
 public:
  KeptOutput();  // throws StorageError
  const FileDescriptor& file() const { return file_; }
  // Returns its last bytes, at most `bytes`.
  std::string last(std::size_t bytes) const;

 private:
  FileDescriptor file_;
};

struct StartOptions {
  std::vector<std::pair<std::string, std::string>> environment = {};  // added to this process's own
  // Files for the output, overwritten. If empty, the output goes to `kept`. Without `kept`, it goes
  // where this process's output goes.
  std::string output_path = {};
  std::string errors_path = {};
  const KeptOutput* kept = nullptr;
  bool has_input = true;  // true: this process's input, unless that is a terminal; otherwise none
};

// Starts a program in a process group of its own, with no signal blocked or ignored, and only the
// first three descriptors. The program is in the background of a terminal, so it cannot read from
// the terminal. It gets SIGTERM if this process ends first. argv[0] is searched for in $PATH.
// Throws NotFoundError, or StorageError if it cannot be started. The caller must wait for the
// program. Only for a process with one thread.
pid_t start_program(const std::vector<std::string>& argv, const StartOptions& options);

}  // namespace cairn
