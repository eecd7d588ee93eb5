// errno as cairn's errors.
#pragma once

#include <string>

namespace cairn {

// Throws the StorageError of errno value `error`: "<doing>: No space left on device (errno 28);
// <what to do>". `doing` names the path: "cannot write ckpt/ep1.pt".
[[noreturn]] void throw_storage_error(int error, const std::string& doing);

// The same of a call that only looks at what is there (open, stat, list, read). It is an
// UnreadableError where the error says that bytes are gone as far as this machine can tell (a bad
// block, a server that has forgotten the file), and not that it could not ask.
[[noreturn]] void throw_read_error(int error, const std::string& doing);

}  // namespace cairn
