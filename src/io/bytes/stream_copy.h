// Copies much memory that is not read again soon.
#pragma once

#include <cstddef>

#include "cairn/bytes.h"

namespace cairn {

constexpr std::size_t kCacheLine = 64;

// Copies past the cache: the overwritten memory is not read first, which takes a third off the time
// of a large copy. Small copies use memcpy.
void stream_copy(std::byte* to, const std::byte* from, std::size_t size);

// As above for whole lines; `to` must be the beginning of a line. Other threads may read the copied
// lines only after a stream_fence().
void stream_lines(std::byte* to, const std::byte* from, std::size_t size);
void stream_fence();

// As stream_copy(), but without the fence, which costs as much as copying a KiB. For many copies
// before one stream_fence().
void stream_copy_unfenced(std::byte* to, const std::byte* from, std::size_t size);

}  // namespace cairn
