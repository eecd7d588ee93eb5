// Streaming through bytes that may be a mapped file larger than memory.
#pragma once

#include <algorithm>
#include <cstddef>

#include "cairn/bytes.h"

namespace cairn {

// Calls use(piece) for consecutive pieces of at most `piece_bytes` and lets go of each afterwards.
void for_each_piece(const SharedBytes& bytes, std::size_t piece_bytes, auto&& use) {
  for (std::size_t done = 0; done < bytes.view.size();) {
    const ByteView piece =
        bytes.view.subspan(done, std::min(piece_bytes, bytes.view.size() - done));
    use(piece);
    bytes.release(piece);
    done += piece.size();
  }
}

}  // namespace cairn
