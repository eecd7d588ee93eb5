// Writes bytes of any length, one after the other, into memory that is not read again soon.
//
// The bytes go past the cache (stream_copy.h) in whole lines. Writing part of a line past the cache
// takes longer than copying a whole small piece. Writing that part through the cache reads the
// memory first. So the odd bytes at the end of a piece wait for the next piece. This halves the
// time to copy 100,000 tensors of 10 KiB with their CRCs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "cairn/bytes.h"

#include "io/bytes/stream_copy.h"

namespace cairn {

class LineWriter {
 public:
  // Sets where the next bytes go: `to`, at the beginning of a line. No bytes may be waiting.
  void begin(std::byte* to) { to_ = to; }
  void write(ByteView bytes);
  // Also returns the CRC-32 of `bytes`; `before` is the CRC of the preceding bytes. The CRC is of
  // the bytes as they were copied, even if `bytes` change meanwhile.
  std::uint32_t write_with_crc32(ByteView bytes, std::uint32_t before);
  // Brings everything to its place, where other threads may then read it.
  void finish();

 private:
  static constexpr std::size_t kGathered = std::size_t{4} << 10;

  // Copies `bytes` into gathered_, and calls check(copy) for each part of them.
  template <class Check>
  void gather(ByteView bytes, const Check& check);
  // Brings the whole lines in gathered_ to their place.
  void flush_lines();
  // Writes `bytes`. copy_lines(lines) brings whole lines to to_; check() is as for gather().
  template <class CopyLines, class Check>
  void write_by(ByteView bytes, const CopyLines& copy_lines, const Check& check);

  alignas(kCacheLine) std::array<std::byte, kGathered> gathered_;
  std::size_t used_ = 0;     // bytes in gathered_, which belong at to_
  std::byte* to_ = nullptr;  // at the beginning of a line
};

}  // namespace cairn
