// A sink that copies the bytes that it is given, and can compute their checksum at the same time.
#pragma once

#include <cstdint>

#include "cairn/bytes.h"

namespace cairn {

class CopyingSink : public ByteSink {
 public:
  // Writes `bytes` and returns their CRC-32; `before` is the CRC of the preceding bytes. Each byte
  // is read from memory once for both. So the CRC is of the bytes that were written, even if
  // `bytes` change meanwhile.
  virtual std::uint32_t write_with_crc32(ByteView bytes, std::uint32_t before) = 0;
};

}  // namespace cairn
