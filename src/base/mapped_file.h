// Mapping an open file.
#pragma once

#include <cstddef>
#include <string>

#include "cairn/bytes.h"

namespace cairn {

// The first `size` bytes, read-only; the descriptor may be closed afterwards. `name` is for the
// StorageError.
SharedBytes map_descriptor(int fd, std::size_t size, const std::string& name);

}  // namespace cairn
