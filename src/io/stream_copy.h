// Copying much memory that is not read again soon.
#pragma once

#include <cstddef>

#include "cairn/bytes.h"

#include "io/gap_bridge.h"

namespace cairn {

// memcpy past the cache: memory is not first read where it is overwritten anyway, which takes a
// third off the time of a large copy. For small ones, memcpy.
void stream_copy(std::byte* to, const std::byte* from, std::size_t size);

// The same of whole lines, to the begin of one. Other threads may only read them behind a
// stream_fence().
void stream_lines(std::byte* to, const std::byte* from, std::size_t size);
void stream_fence();

// stream_copy() of many, which other threads may only read behind a fence(), or once this is gone:
// what makes them visible costs as much as copying a KiB. In the order of their addresses small
// gaps between what is read cost nothing.
class StreamCopier {
 public:
  StreamCopier() = default;
  ~StreamCopier();
  StreamCopier(const StreamCopier&) = delete;
  StreamCopier& operator=(const StreamCopier&) = delete;

  void copy(std::byte* to, const std::byte* from, std::size_t size);
  void fence();

 private:
  GapBridge bridge_;
};

}  // namespace cairn
