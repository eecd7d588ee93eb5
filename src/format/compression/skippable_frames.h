// Frames of the user's own data, which lz4 and zstd share and pass over: u32 0x184D2A50 to
// 0x184D2A5F, u32 size, bytes.
#pragma once

#include "cairn/bytes.h"

#include "core/little_endian.h"

namespace cairn {

// From the first frame that is something else.
inline ByteView without_skippable_frames(ByteView bytes) {
  constexpr std::size_t kHeader = 8;
  while (bytes.size() >= kHeader &&
         load_little_endian<std::uint32_t>(bytes.data()) >> 4 == 0x184D2A5) {
    const std::uint64_t size = load_little_endian<std::uint32_t>(bytes.data() + 4);
    if (size > bytes.size() - kHeader) return {};
    bytes = bytes.subspan(kHeader + size);
  }
  return bytes;
}

}  // namespace cairn
