// Files that somebody is still writing.
#pragma once

#include <string>

namespace cairn {

// Whether another living process holds the lock of a writer of cairn on the file, or, as far as the
// kernel tells (not for other users' files, nor on network file systems), has it open for writing.
// False for what is no file, and for what cannot be told.
bool is_being_written(const std::string& path);

}  // namespace cairn
