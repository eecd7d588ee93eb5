// Where the executor of a plan puts a file's bytes. This interface separates what is written from
// how it is transferred.
#pragma once

#include <cstdint>

#include "cairn/bytes.h"

namespace cairn {

class PositionalSink {
 public:
  virtual ~PositionalSink() = default;

  // Puts `bytes` at `offset`. Executors write every byte of a file once, in ascending order. The
  // sink may keep the bytes, and read them from other threads, until it is done with them. The sink
  // must not need another call to be done with the bytes, because the caller may be waiting for
  // their memory. Throws StorageError if this range, or an earlier one, cannot be written.
  virtual void write(std::uint64_t offset, const SharedBytes& bytes) = 0;
  // The largest size of `bytes` that an executor chooses, if it has a choice:
  // ObjectWrite::piece_bytes().
  virtual std::size_t piece_bytes() const { return std::size_t{4} << 20; }
};

}  // namespace cairn
