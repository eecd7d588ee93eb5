// The CRC-32 of zip and gzip.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cairn/bytes.h"

namespace cairn {

// Of `bytes`, and of what came before them, whose CRC is `before`.
std::uint32_t crc32(ByteView bytes, std::uint32_t before = 0);

// Of what `first` is the CRC of, with `size` bytes behind it whose own one is `second`.
std::uint32_t crc32_joined(std::uint32_t first, std::uint32_t second, std::uint64_t size);

// crc32() in one pass with copying the bytes to `to`: of what was written, whatever becomes of
// `bytes` meanwhile.
std::uint32_t crc32_and_copy(std::byte* to, ByteView bytes, std::uint32_t before);

// The same past the cache, of a multiple of 64 bytes to a place that is one: other threads may read
// them behind a stream_fence() (io/bytes/stream_copy.h).
std::uint32_t crc32_and_copy_lines(std::byte* to, ByteView bytes, std::uint32_t before);

}  // namespace cairn
