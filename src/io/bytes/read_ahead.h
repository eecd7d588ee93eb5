// Small things that stand one behind the other in a source, with large gaps or none: headers.
#pragma once

#include <cstdint>

#include "cairn/byte_source.h"

namespace cairn {

// One piece of a source that moves with what is asked for, so that neighbours cost one read.
class ReadAhead {
 public:
  // `source` must outlive it. So much is read at once.
  explicit ReadAhead(const ByteSource& source, std::uint64_t piece_bytes = std::uint64_t{64} << 10)
      : source_(source), piece_bytes_(piece_bytes) {}

  // `size` bytes from `offset` on, or as many as there are. Valid until the next call.
  // StorageError.
  ByteView at(std::uint64_t offset, std::uint64_t size);

 private:
  const ByteSource& source_;
  std::uint64_t piece_bytes_;
  std::uint64_t begin_ = 0;
  SharedBytes piece_ = {};
};

}  // namespace cairn
