// A storage that is put together out of ranges of sources.
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
  // Adds the ranges that fill `into`, a place for all bytes, once they are read, so that they can
  // be read and checked with those of others. False, and adds none, where the bytes have to be made
  // (decoded, say), or the ranges would be too many and too small: then there is read_into().
  // May read what says where they are. The sources live as long as this. CorruptError,
  // StorageError.
  virtual bool add_ranges(std::span<std::byte> into, std::vector<SourceRange>& ranges) const = 0;

 protected:
  using Storage::Storage;
};

// All elements of a tensor that is stored in several pieces, in row-major order, of which any box
// can be had alone.
class PiecesStorage : public AssembledStorage {
 public:
  struct Cut {
    const PiecesStorage* storage = nullptr;
    Dims offsets = {};
    Dims sizes = {};
  };

  // Who has the pieces: those of one owner are opened together.
  virtual const void* owner() const = 0;
  // The elements of boxes of tensors of this owner, each in row-major order. Opens the pieces that
  // have some of them, and no others. CorruptError, StorageError.
  virtual std::vector<std::shared_ptr<const Storage>> cut(std::span<const Cut> cuts) const = 0;

 protected:
  using AssembledStorage::AssembledStorage;
};

}  // namespace cairn
