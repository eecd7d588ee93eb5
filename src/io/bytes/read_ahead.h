// Reads small things, such as headers, that follow one another in a source, with or without large
// gaps.
#pragma once

#include <cstdint>

#include "cairn/byte_source.h"

namespace cairn {

// Holds one piece of a source around the last request, so that neighbours cost one read.
class ReadAhead {
 public:
  // `source` must outlive the ReadAhead. Each read fetches `piece_bytes`.
  explicit ReadAhead(const ByteSource& source, std::uint64_t piece_bytes = std::uint64_t{64} << 10)
      : source_(source), piece_bytes_(piece_bytes) {}

  // Returns `size` bytes from `offset` on, or as many as there are. Valid until the next call.
  // Throws StorageError.
  ByteView at(std::uint64_t offset, std::uint64_t size);

 private:
  const ByteSource& source_;
  std::uint64_t piece_bytes_;
  std::uint64_t begin_ = 0;
  SharedBytes piece_ = {};
};

}  // namespace cairn
