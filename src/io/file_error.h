// errno values as cairn's errors.
#pragma once

#include <string>

namespace cairn {

// Throws the StorageError for the errno value `error`: "<doing>: No space left on device (errno
// 28); <what to do>". `doing` names the path: "cannot write ckpt/ep1.pt".
[[noreturn]] void throw_storage_error(int error, const std::string& doing);

// As above, for a call that only looks at files (open, stat, list, read). Throws UnreadableError if
// the error means that bytes are gone as far as this machine can tell (a bad block, a server that
// has forgotten the file). Other errors mean only that the call could not look.
[[noreturn]] void throw_read_error(int error, const std::string& doing);

}  // namespace cairn
