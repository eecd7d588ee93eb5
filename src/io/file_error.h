// errno as cairn's errors.
#pragma once

#include <string>

namespace cairn {

// Throws the StorageError of errno value `error`: "<doing>: No space left on device (errno 28);
// <what to do>". `doing` names the path: "cannot write ckpt/ep1.pt".
[[noreturn]] void throw_storage_error(int error, const std::string& doing);

// Whether a read that fails with it says that the bytes are gone as far as this machine can tell,
// and not that it could not ask (UnreadableError).
bool are_bytes_lost(int error);

}  // namespace cairn
