// Computes the long middle of a CRC by products of polynomials. With the carry-less multiplication
// of x86-64 (PCLMULQDQ), 64 bytes at a time, this is ten times as fast as tables. With carry-less
// multiplication on 64-byte registers (VPCLMULQDQ, AVX-512), 256 bytes at a time, this is as fast
// as memory is read.
#pragma once

#include <array>
#include <cstdint>

#include "cairn/bytes.h"

namespace cairn {

// Factors for a CRC whose lowest bit is the highest power. They are polynomials whose highest bit
// is x^0. They move the first and the second half of 16 bytes past 256, 64 and 16 bytes.
struct CrcFolding {
  std::array<std::uint64_t, 2> past_256;
  std::array<std::uint64_t, 2> past_64;
  std::array<std::uint64_t, 2> past_16;
};

// How many bytes are folded at once.
enum class CrcFold { kNone, k64, k256 };

// The largest fold that this processor supports.
CrcFold best_crc_fold();

// Returns 16 bytes. Their CRC, computed from a register of 0, equals the CRC of `bytes`, computed
// from a register of `crc`. The size of `bytes` must be a multiple of 64, and not 0. `fold` must be
// at most best_crc_fold(), and not kNone.
std::array<std::byte, 16> folded(ByteView bytes, std::uint64_t crc, const CrcFolding& by,
                                 CrcFold fold);

// As above, and also copies the bytes to `to`, past the cache. Each byte is loaded once for both.
// The address `to` must be a multiple of 64. Other threads may read the copy only after a
// stream_fence() (io/bytes/stream_copy.h).
std::array<std::byte, 16> folded_and_copied(ByteView bytes, std::uint64_t crc, const CrcFolding& by,
                                            std::byte* to, CrcFold fold);

}  // namespace cairn
