// Starting another program that goes on by itself: with this one's terminal, or its output in
// files.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "io/file_descriptor.h"

namespace cairn {

// An unnamed file for the output of programs, gone with this object.
class KeptOutput {
 public:
  KeptOutput();  // StorageError
  const FileDescriptor& file() const { return file_; }
  // The last bytes in it, at most so many.
  std::string last(std::size_t bytes) const;

 private:
  FileDescriptor file_;
};

struct StartOptions {
  std::vector<std::pair<std::string, std::string>> environment = {};  // over this process's own
  // Written anew; empty: into `kept`, and without that where this process's own goes.
  std::string output_path = {};
  std::string errors_path = {};
  const KeptOutput* kept = nullptr;
  bool has_input = true;  // this process's own, unless that is a terminal; else there is none
};

// In a process group of its own, with no signal blocked or ignored, and no descriptor but the first
// three. A terminal is not its to read, being in the background there. When this process dies
// before it, it gets SIGTERM. argv[0] is searched for in $PATH: NotFoundError. StorageError when it
// cannot be started. Who has it must wait for it. Of a process with one thread.
pid_t start_program(const std::vector<std::string>& argv, const StartOptions& options);

}  // namespace cairn
