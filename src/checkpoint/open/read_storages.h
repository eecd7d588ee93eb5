// The bytes of storages, brought into memory.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"

namespace cairn {

// Fills every place. Ranges of one source are read with one call; what is assembled when it is
// asked for is, by several threads. StorageError, CorruptError.
void read_storages(const std::vector<StorageRead>& reads);

// For a format whose checksums are of pieces of one source: gives place(read) the chance to take
// each read for its piece, and fills the places of those that it refused (false).
void read_others(const std::vector<StorageRead>& reads,
                 const std::function<bool(const StorageRead& read)>& place);

}  // namespace cairn
