// A storage that is put together out of ranges of sources.
#pragma once

#include <span>
#include <vector>

#include "cairn/byte_source.h"
#include "cairn/tensor.h"

namespace cairn {

struct SourceRange {
  const ByteSource* source = nullptr;
  ByteSource::Range range = {};
};

class AssembledStorage : public Storage {
 public:
  // Adds the ranges that fill `into`, a place for all bytes, once they are read, so that they can
  // be read and checked with those of others. False, and adds none, where the bytes have to be made
  // (decoded, say), or the ranges would be too many and too small: then there is read_into().
  // May read what says where they are. The sources live as long as this. CorruptError,
  // StorageError.
  virtual bool add_ranges(std::span<std::byte> into, std::vector<SourceRange>& ranges) const = 0;

 protected:
  using Storage::Storage;
};

}  // namespace cairn
