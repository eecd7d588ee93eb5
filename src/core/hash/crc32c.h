// CRC-32C (Castagnoli), the checksum that Google's storage keeps for every object.
#pragma once

#include <cstdint>

#include "cairn/bytes.h"

namespace cairn {

// CRC of `bytes`. Pass the CRC of preceding bytes as `before` to continue it.
std::uint32_t crc32c(ByteView bytes, std::uint32_t before = 0);

// CRC of two joined ranges with the CRCs `first` and `second`; the second has `size` bytes.
std::uint32_t crc32c_joined(std::uint32_t first, std::uint32_t second, std::uint64_t size);

}  // namespace cairn
