// CRC-32C (Castagnoli), the checksum that Google's storage keeps of every object.
#pragma once

#include <cstdint>

#include "cairn/bytes.h"

namespace cairn {

// Of `bytes`, or of what `before` is the checksum of with `bytes` behind it.
std::uint32_t crc32c(ByteView bytes, std::uint32_t before = 0);

// Of what `first` is the checksum of, with `size` bytes behind it whose own one is `second`.
std::uint32_t crc32c_joined(std::uint32_t first, std::uint32_t second, std::uint64_t size);

}  // namespace cairn
