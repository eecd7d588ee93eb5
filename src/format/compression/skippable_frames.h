// Frames of the user's own data, which lz4 and zstd both skip: u32 0x184D2A50 to 0x184D2A5F, u32
// size, bytes.
#pragma once

#include <cstdint>
#include <optional>

#include "cairn/bytes.h"

#include "core/little_endian.h"

namespace cairn {

inline constexpr std::size_t kSkippableHeaderBytes = 8;

// Returns the size of the frame that begins `bytes`, with its header; nullopt if no frame begins
// there.
inline std::optional<std::uint64_t> skippable_frame_size(ByteView bytes) {
  const bool is_one = bytes.size() >= kSkippableHeaderBytes &&
                      load_little_endian<std::uint32_t>(bytes.data()) >> 4 == 0x184D2A5;
  if (!is_one) return std::nullopt;
  return kSkippableHeaderBytes + std::uint64_t{load_little_endian<std::uint32_t>(bytes.data() + 4)};
}

}  // namespace cairn
