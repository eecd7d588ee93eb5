// The long middle of a CRC, by products of polynomials: ten times as fast as tables, 64 bytes at a
// time, where the processor multiplies without carries (x86-64's PCLMULQDQ), and as fast as memory
// is read, 256 at a time, where it does so with registers of 64 bytes (VPCLMULQDQ, AVX-512).
#pragma once

#include <array>
#include <cstdint>

#include "cairn/bytes.h"

namespace cairn {

// Of a CRC whose lowest bit is the highest power, as polynomials whose highest bit is x^0:
// what moves the first and the second half of 16 bytes past 256 bytes, past 64, and past 16.
struct CrcFolding {
  std::array<std::uint64_t, 2> past_256;
  std::array<std::uint64_t, 2> past_64;
  std::array<std::uint64_t, 2> past_16;
};

// How much is folded at once.
enum class CrcFold { kNone, k64, k256 };

// The most that this processor can.
CrcFold best_crc_fold();

// 16 bytes that leave the register, begun with 0, as `bytes` do that begin with `crc` in it. A
// multiple of 64 bytes, not none. `fold`: at most the best one, and not kNone.
std::array<std::byte, 16> folded(ByteView bytes, std::uint64_t crc, const CrcFolding& by,
                                 CrcFold fold);

// The same, and copies them to `to` meanwhile, past the cache: each byte is loaded once for both.
// `to` is a multiple of 64. Other threads may read it behind a fence (io/bytes/stream_copy.h has
// it).
std::array<std::byte, 16> folded_and_copied(ByteView bytes, std::uint64_t crc, const CrcFolding& by,
                                            std::byte* to, CrcFold fold);

}  // namespace cairn
