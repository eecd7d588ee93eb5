// The CRC-32 of zip and gzip.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cairn/bytes.h"

namespace cairn {

// Of `bytes`, and of what came before them, whose CRC is `before`.
std::uint32_t crc32(ByteView bytes, std::uint32_t before = 0);

// The same in one pass with copying the bytes to `to`, past the cache where they are many: other
// threads may read them behind a fence (io/stream_copy.h).
std::uint32_t crc32_and_copy(std::byte* to, ByteView bytes, std::uint32_t before);

}  // namespace cairn
