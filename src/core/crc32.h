// The CRC-32 of zip and gzip.
#pragma once

#include <cstdint>

#include "cairn/bytes.h"

namespace cairn {

// Of `bytes`, and of what came before them, whose CRC is `before`.
std::uint32_t crc32(ByteView bytes, std::uint32_t before = 0);

}  // namespace cairn
