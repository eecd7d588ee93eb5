// Bytes that are made when they are asked for, and may be more than memory holds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cairn/bytes.h"

namespace cairn {

// What is as large as this, or smaller, is made in memory.
inline constexpr std::uint64_t kMostBytesInMemory = std::uint64_t{32} << 20;

// The `size` bytes that `write` writes: in memory up to kMostBytesInMemory, otherwise in a
// ScratchFile in `scratch_folder`, mapped. Throws what `write` throws, and StorageError.
SharedBytes spill(std::uint64_t size, const std::string& scratch_folder,
                  const std::function<void(ByteSink& sink)>& write);

}  // namespace cairn
