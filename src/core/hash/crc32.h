// The CRC-32 of zip and gzip.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cairn/bytes.h"

namespace cairn {

// CRC of `bytes`. Pass the CRC of preceding bytes as `before` to continue it.
std::uint32_t crc32(ByteView bytes, std::uint32_t before = 0);

// CRC of two joined ranges with the CRCs `first` and `second`; the second has `size` bytes.
std::uint32_t crc32_joined(std::uint32_t first, std::uint32_t second, std::uint64_t size);

// Copies the bytes to `to`, and computes their CRC as crc32() does, in one pass. The CRC is of the
// bytes as they were copied, even if `bytes` change meanwhile.
std::uint32_t crc32_and_copy(std::byte* to, ByteView bytes, std::uint32_t before);

// As above, but writes past the cache. The number of bytes and the address `to` must be multiples
// of 64. Other threads may read the copy only after a stream_fence() (io/bytes/stream_copy.h).
std::uint32_t crc32_and_copy_lines(std::byte* to, ByteView bytes, std::uint32_t before);

}  // namespace cairn
