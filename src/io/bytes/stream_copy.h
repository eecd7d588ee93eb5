// Copying much memory that is not read again soon.
#pragma once

#include <cstddef>

#include "cairn/bytes.h"

namespace cairn {

constexpr std::size_t kCacheLine = 64;

// memcpy past the cache: memory is not first read where it is overwritten anyway, which takes a
// third off the time of a large copy. For small ones, memcpy.
void stream_copy(std::byte* to, const std::byte* from, std::size_t size);

// The same of whole lines, to the begin of one. Other threads may only read them behind a
// stream_fence().
void stream_lines(std::byte* to, const std::byte* from, std::size_t size);
void stream_fence();

// stream_copy() without its fence, which costs as much as copying a KiB: for many copies before one
// stream_fence().
void stream_copy_unfenced(std::byte* to, const std::byte* from, std::size_t size);

}  // namespace cairn
