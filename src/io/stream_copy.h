// Copying much memory that is not read again soon.
#pragma once

#include <cstddef>

namespace cairn {

// memcpy past the cache: memory is not first read where it is overwritten anyway, which takes a
// third off the time of a large copy. For small ones, memcpy.
void stream_copy(std::byte* to, const std::byte* from, std::size_t size);

// The same for many, which other threads may only read once this is gone: what makes them visible
// costs as much as copying a KiB.
class StreamCopier {
 public:
  StreamCopier() = default;
  ~StreamCopier();
  StreamCopier(const StreamCopier&) = delete;
  StreamCopier& operator=(const StreamCopier&) = delete;

  void copy(std::byte* to, const std::byte* from, std::size_t size);
};

}  // namespace cairn
