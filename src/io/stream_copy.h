// Copying much memory that is not read again soon.
#pragma once

#include <cstddef>

namespace cairn {

// memcpy past the cache: memory is not first read where it is overwritten anyway, which takes a
// third off the time of a large copy. For small ones, memcpy.
void stream_copy(std::byte* to, const std::byte* from, std::size_t size);

}  // namespace cairn
