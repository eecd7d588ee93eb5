// Goes back to an earlier end of a file.
#pragma once

#include <cstdint>
#include <string>

namespace cairn {

// Replaces the file by its first `bytes` bytes. Does nothing, and returns false, if no file has
// that name. A shorter file stays. Throws StorageError.
bool cut_file(const std::string& path, std::uint64_t bytes);

}  // namespace cairn
