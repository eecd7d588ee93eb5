// Definitions that the reader and the writer of tar files share: docs/formats/containers.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>

#include "cairn/bytes.h"

namespace cairn::tar {

inline constexpr std::size_t kBlockBytes = 512;  // everything is padded to a multiple of this

// A field of a header block.
struct Field {
  std::size_t offset;
  std::size_t size;
};

inline constexpr Field kName = {0, 100};
inline constexpr Field kMode = {100, 8};
inline constexpr Field kUser = {108, 8};
inline constexpr Field kGroup = {116, 8};
inline constexpr Field kSize = {124, 12};
inline constexpr Field kModified = {136, 12};
inline constexpr Field kChecksum = {148, 8};
inline constexpr Field kType = {156, 1};
inline constexpr Field kLinkName = {157, 100};
inline constexpr Field kMagic = {257, 8};  // with the version
inline constexpr Field kPrefix = {345, 155};

inline constexpr std::string_view kUstar{"ustar\00000", 8};
inline constexpr std::string_view kGnu{"ustar  \0", 8};

// Returns the sum of all bytes of a header block, with blanks in place of the checksum's own field.
inline unsigned checksum(ByteView block) {
  const auto add = [](unsigned sum, std::byte b) { return sum + static_cast<unsigned>(b); };
  const ByteView before = block.first(kChecksum.offset);
  const ByteView after = block.subspan(kChecksum.offset + kChecksum.size);
  return std::accumulate(after.begin(), after.end(),
                         std::accumulate(before.begin(), before.end(), 0U, add), add) +
         static_cast<unsigned>(kChecksum.size * ' ');
}

}  // namespace cairn::tar
