// Reserves a port for a process that is started later.
#pragma once

#include <cstdint>

#include "io/file_descriptor.h"

namespace cairn {

// A TCP port of this machine. While this lives, the system gives the port to no process that asks
// for any port. A process can still listen at it with SO_REUSEADDR, as c10d's TCPStore does: the
// port is bound, but nothing listens.
class ReservedPort {
 public:
  ReservedPort();  // throws StorageError
  std::uint16_t number() const { return number_; }

 private:
  FileDescriptor socket_;
  std::uint16_t number_ = 0;
};

}  // namespace cairn
