// A sink that copies what it gets, and can compute a checksum of it on the way.
#pragma once

#include <cstdint>

#include "cairn/bytes.h"

namespace cairn {

class CopyingSink : public ByteSink {
 public:
  // write(), and the CRC-32 of what `before` is that of with `bytes` behind it: each byte is read
  // from memory once for both, and what was written is what the CRC is of, whatever happens to
  // `bytes` meanwhile.
  virtual std::uint32_t write_with_crc32(ByteView bytes, std::uint32_t before) = 0;
};

}  // namespace cairn
