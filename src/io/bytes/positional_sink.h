// Where an executor of a plan puts a file's bytes: the narrow place between what is written and how
// it gets somewhere.
#pragma once

#include <cstdint>

#include "cairn/bytes.h"

namespace cairn {

class PositionalSink {
 public:
  virtual ~PositionalSink() = default;

  // Puts `bytes` at `offset`. Executors write every byte of a file once, in ascending order. May
  // keep the bytes, and read them from other threads, until it is done with them; that must not
  // take another call, which may be waiting for their memory. Throws StorageError, also that of a
  // range before.
  virtual void write(std::uint64_t offset, const SharedBytes& bytes) = 0;
  // How large `bytes` are at most, where the executor may choose: ObjectWrite::piece_bytes().
  virtual std::size_t piece_bytes() const { return std::size_t{4} << 20; }
};

}  // namespace cairn
