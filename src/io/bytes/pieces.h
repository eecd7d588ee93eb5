// Streams through bytes that may be a file larger than memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cairn/byte_source.h"

#include "core/per_thread.h"

namespace cairn {

// Calls use(piece) for consecutive pieces of at most `piece_bytes`, and releases each afterwards.
void for_each_piece(const SharedBytes& bytes, std::size_t piece_bytes, auto&& use) {
  for (std::size_t done = 0; done < bytes.view.size();) {
    const ByteView piece =
        bytes.view.subspan(done, std::min(piece_bytes, bytes.view.size() - done));
    use(piece);
    bytes.release(piece);
    done += piece.size();
  }
}

inline constexpr std::uint64_t kReadPieceBytes = std::uint64_t{1} << 20;

// As above for a range of a source, in pieces that fit a core's cache. Bytes in memory are passed
// where they lie. A source with shows_in_order() passes them by read_each(). Other bytes are read
// into a buffer that each thread has for itself.
void for_each_piece(const ByteSource& source, std::uint64_t offset, std::uint64_t size,
                    auto&& use) {
  if (source.in_memory()) return for_each_piece(source.view(offset, size), kReadPieceBytes, use);
  if (source.shows_in_order()) {
    const ByteSource::Part all{.offset = offset, .size = size};
    return source.read_each({&all, 1}, [&](auto, auto, ByteView bytes) { use(bytes); });
  }
  static const BytesPerThread<kReadPieceBytes> places;
  const std::span<std::byte> place = places.here();
  for (std::uint64_t done = 0; done < size;) {
    const ByteSource::Range range{offset + done,
                                  place.first(std::min(kReadPieceBytes, size - done))};
    source.read({&range, 1});
    use(ByteView(range.into));
    done += range.into.size();
  }
}

}  // namespace cairn
