// Copying much memory that is not read again soon.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cairn/bytes.h"

#include "io/gap_bridge.h"

namespace cairn {

// memcpy past the cache: memory is not first read where it is overwritten anyway, which takes a
// third off the time of a large copy. For small ones, memcpy.
void stream_copy(std::byte* to, const std::byte* from, std::size_t size);

// The same for many, which other threads may only read behind a fence(), or once this is gone: what
// makes them visible costs as much as copying a KiB. In the order of their addresses small gaps
// between what is read cost nothing.
class StreamCopier {
 public:
  StreamCopier() = default;
  ~StreamCopier();
  StreamCopier(const StreamCopier&) = delete;
  StreamCopier& operator=(const StreamCopier&) = delete;

  void copy(std::byte* to, const std::byte* from, std::size_t size);
  // The same in one pass with the CRC-32 of what stands there, `before` being that of what came
  // before it. Through the cache up to 32 KiB: they are read for the CRC anyway, and two lines of
  // each are written in part, which past the cache takes longer than all the others.
  std::uint32_t copy_with_crc32(std::byte* to, ByteView from, std::uint32_t before);
  void fence();

 private:
  GapBridge bridge_;
};

}  // namespace cairn
