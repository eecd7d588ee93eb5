// A storage that is assembled from ranges of sources.
#pragma once

#include <cstdint>
#include <memory>
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
  // Adds the ranges that fill `into`, which has room for all bytes. The caller can then read and
  // check them together with other ranges. Returns false and adds none if the bytes must be
  // computed (decoded, for example), or if the ranges would be too many and too small; use
  // read_into() then. May read the metadata that says where the ranges are. The sources live as
  // long as this storage. Throws CorruptError, StorageError.
  virtual bool add_ranges(std::span<std::byte> into, std::vector<SourceRange>& ranges) const = 0;

 protected:
  using Storage::Storage;
};

// All elements, in row-major order, of a tensor that is stored in several pieces. Boxes of the
// tensor can be read alone.
class PiecesStorage : public AssembledStorage {
 public:
  struct Cut {
    const PiecesStorage* storage = nullptr;
    Dims offsets = {};
    Dims sizes = {};
  };

  // The owner of the pieces. Pieces of one owner are opened together.
  virtual const void* owner() const = 0;
  // Returns the elements of boxes of tensors of this owner, each in row-major order. Opens only
  // pieces that overlap the boxes. Throws CorruptError, StorageError.
  virtual std::vector<std::shared_ptr<const Storage>> cut(std::span<const Cut> cuts) const = 0;

 protected:
  using AssembledStorage::AssembledStorage;
};

}  // namespace cairn
