// Bytes that are somewhere: in a file, an object of a bucket, memory. The one way in which formats
// read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cairn/bytes.h"

namespace cairn {

// Immutable bytes of known size; what size() says and read() gives belongs to what was opened,
// whatever becomes of its name. Safe from several threads.
//
// A read costs a request, where the bytes are far away: readers ask for all that they know they
// need in one call, and for the ends of a file generously and once.
class ByteSource {
 public:
  struct Range {
    std::uint64_t offset = 0;
    std::span<std::byte> into = {};
  };

  virtual ~ByteSource() = default;

  virtual std::uint64_t size() const = 0;
  // Where it is, for messages: a path, a URI.
  virtual const std::string& name() const = 0;

  // Fills every range, in any order, several at once and near ones as one where that pays; ranges
  // may overlap, their places not. UsageError when one reaches outside. StorageError naming the
  // source and the first byte that could not be read: then what stands in the places is undefined.
  virtual void read(std::span<const Range> ranges) const = 0;

  // Whether view() costs nothing: the bytes are in memory, or a file that was mapped.
  virtual bool in_memory() const { return false; }
  // A range for as long as the result lives: a view where the bytes are in memory, or a file that
  // can be mapped (whose pages are read when they are touched: io/mapped_file.h), otherwise a
  // buffer, read now. UsageError, StorageError.
  virtual SharedBytes view(std::uint64_t offset, std::uint64_t size) const;

  // UsageError unless the range lies inside.
  void check_range(std::uint64_t offset, std::uint64_t size) const;
};

// All of `bytes`, under a name for messages. Empty bytes need no owner.
std::shared_ptr<const ByteSource> source_of(SharedBytes bytes, std::string name);

}  // namespace cairn
