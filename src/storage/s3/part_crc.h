// The CRC of a part of an upload, computed while the part is gathered.
#pragma once

#include <cstddef>
#include <utility>

#include "cairn/bytes.h"

namespace cairn::s3 {

// `kCrc` has the form `Word crc(ByteView bytes, Word before)`. Not thread-safe.
template <typename Word, Word (*kCrc)(ByteView, Word)>
class PartCrc {
 public:
  void add(ByteView bytes) {
    crc_ = kCrc(bytes, crc_);
    size_ += bytes.size();
  }

  // Returns the CRC of `part`, and starts the next part. Either all bytes of the part were added,
  // or none.
  Word take(ByteView part) {
    const bool is_added = std::exchange(size_, 0) == part.size();
    const Word crc = std::exchange(crc_, Word{0});
    return is_added ? crc : kCrc(part, Word{0});
  }

 private:
  Word crc_ = 0;
  std::size_t size_ = 0;
};

}  // namespace cairn::s3
