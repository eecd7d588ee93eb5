// Starting another program: no shell, no files, no descriptors that are not its own.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "io/file_descriptor.h"

namespace cairn {

// Where `name` is found in $PATH; `name` itself when it has a slash. nullopt when it is nowhere, or
// may not be run.
std::optional<std::string> find_program(const std::string& name);

struct SpawnedProgram {
  pid_t pid = -1;         // also of its process group
  FileDescriptor input;   // a socket: writing to one that is closed need not raise SIGPIPE
  FileDescriptor output;  // the reading ends of pipes
  FileDescriptor errors;
};

// argv[0] is searched for: NotFoundError. StorageError when it cannot be started. Who has it must
// wait for it.
SpawnedProgram spawn_program(const std::vector<std::string>& argv);

// Its status, as waitpid() gives it; nullopt where nobody knows it: SIGCHLD is ignored, or somebody
// else waited for it, or it is no process (-1).
std::optional<int> wait_for_program(pid_t pid);
// The same without waiting: false while it runs.
bool has_ended(pid_t pid, std::optional<int>& status);

}  // namespace cairn
