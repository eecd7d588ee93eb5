// Starts another program: no shell, no files, no inherited descriptors.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "io/file_descriptor.h"

namespace cairn {

// Returns the path of `name` in $PATH, or `name` itself if it has a slash. nullopt if it was not
// found or may not be run.
std::optional<std::string> find_program(const std::string& name);

struct SpawnedProgram {
  pid_t pid = -1;         // also the number of its process group
  FileDescriptor input;   // a socket, so that writing to a closed one need not raise SIGPIPE
  FileDescriptor output;  // the reading ends of pipes
  FileDescriptor errors;
};

// argv[0] is searched for in $PATH. Throws NotFoundError, or StorageError if it cannot be started.
// The caller must wait for the program.
SpawnedProgram spawn_program(const std::vector<std::string>& argv);

// Waits, and returns the status as waitpid() gives it. nullopt if it is unknown: SIGCHLD is
// ignored, other code waited for the process, or there is none (-1).
std::optional<int> wait_for_program(pid_t pid);
// As above without waiting. Returns false while the process runs.
bool has_ended(pid_t pid, std::optional<int>& status);

}  // namespace cairn
