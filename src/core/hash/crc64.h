// CRC-64/NVME, the checksum that S3 keeps for whole objects.
#pragma once

#include <cstdint>

#include "cairn/bytes.h"

namespace cairn {

// CRC of `bytes`. Pass the CRC of preceding bytes as `before` to continue it.
std::uint64_t crc64_nvme(ByteView bytes, std::uint64_t before = 0);

// CRC of two joined ranges with the CRCs `first` and `second`; the second has `size` bytes.
std::uint64_t crc64_nvme_joined(std::uint64_t first, std::uint64_t second, std::uint64_t size);

}  // namespace cairn
