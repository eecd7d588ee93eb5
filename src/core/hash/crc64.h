// CRC-64/NVME, the checksum that S3 keeps of whole objects.
#pragma once

#include <cstdint>

#include "cairn/bytes.h"

namespace cairn {

// Of `bytes`, or of what `before` is the checksum of with `bytes` behind it.
std::uint64_t crc64_nvme(ByteView bytes, std::uint64_t before = 0);

// Of what `first` is the checksum of, with `size` bytes behind it whose own one is `second`.
std::uint64_t crc64_nvme_joined(std::uint64_t first, std::uint64_t second, std::uint64_t size);

}  // namespace cairn
