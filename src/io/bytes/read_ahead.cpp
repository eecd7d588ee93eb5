#include "io/bytes/read_ahead.h"

#include <algorithm>

#include "io/bytes/source_part.h"

namespace cairn {

ByteView ReadAhead::at(std::uint64_t offset, std::uint64_t size) {
  offset = std::min(offset, source_.size());
  size = std::min(size, source_.size() - offset);
  const std::uint64_t there = piece_.view.size();
  const bool is_there =
      offset >= begin_ && offset - begin_ <= there && size <= there - (offset - begin_);
  if (!is_there) {
    const std::uint64_t ahead = std::min(std::max(size, piece_bytes_), source_.size() - offset);
    piece_ = read_bytes(source_, offset, ahead);
    begin_ = offset;
  }
  return piece_.view.subspan(offset - begin_, size);
}

}  // namespace cairn
