// Bytes of any length, one behind the other, into memory that is not read again soon.
//
// They go past the cache (stream_copy.h) in whole lines: what is written in part of a line past it
// takes longer than all of a small piece, and through it the memory is read first. So the odd bytes
// at the end of a piece wait for the piece behind it. Copied so, with their CRCs, 100,000 tensors
// of 10 KiB take half the time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "cairn/bytes.h"

#include "io/bytes/stream_copy.h"

namespace cairn {

class LineWriter {
 public:
  // What is written next stands at `to`, where a line begins; nothing may be waiting.
  void begin(std::byte* to) { to_ = to; }
  void write(ByteView bytes);
  // The same, and the CRC-32 of what was written, `before` being that of what came before it: of
  // the bytes as they were when they were copied, whatever happens to them meanwhile.
  std::uint32_t write_with_crc32(ByteView bytes, std::uint32_t before);
  // Brings everything to its place, where other threads may read it.
  void finish();

 private:
  static constexpr std::size_t kGathered = std::size_t{4} << 10;

  // Copies `bytes` to where they wait, and calls check(copy) for each part of them.
  template <class Check>
  void gather(ByteView bytes, const Check& check);
  // Brings the whole lines of what waits to their place.
  void flush_lines();
  // Writes them all: copy_lines(lines) brings whole lines to to_, check() is gather()'s.
  template <class CopyLines, class Check>
  void write_by(ByteView bytes, const CopyLines& copy_lines, const Check& check);

  alignas(kCacheLine) std::array<std::byte, kGathered> gathered_;
  std::size_t used_ = 0;     // of gathered_, for the place to_
  std::byte* to_ = nullptr;  // where a line begins
};

}  // namespace cairn
