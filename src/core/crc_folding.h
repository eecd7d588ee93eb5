// The long middle of a CRC, by products of polynomials, 64 bytes at a time: ten times as fast as
// tables, where the processor multiplies without carries (x86-64's PCLMULQDQ).
#pragma once

#include <array>
#include <cstdint>

#include "cairn/bytes.h"

namespace cairn {

// Of a CRC whose lowest bit is the highest power, as polynomials whose highest bit is x^0:
// what moves the first and the second half of 16 bytes past 64 bytes, and past 16.
struct CrcFolding {
  std::array<std::uint64_t, 2> past_64;
  std::array<std::uint64_t, 2> past_16;
};

bool has_crc_folding();

// 16 bytes that leave the register, begun with 0, as `bytes` do that begin with `crc` in it. A
// multiple of 64 bytes, not none. Only where has_crc_folding().
std::array<std::byte, 16> folded(ByteView bytes, std::uint64_t crc, const CrcFolding& by);

// The same, and copies them to `to` meanwhile, past the cache: each byte is loaded once for both.
// `to` is a multiple of 16. Other threads may read it behind a fence (io/stream_copy.h has it).
std::array<std::byte, 16> folded_and_copied(ByteView bytes, std::uint64_t crc, const CrcFolding& by,
                                            std::byte* to);

}  // namespace cairn
