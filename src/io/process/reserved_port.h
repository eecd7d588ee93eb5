// A port for a process that is started later.
#pragma once

#include <cstdint>

#include "io/file_descriptor.h"

namespace cairn {

// A TCP port of this machine that the system gives to nobody who asks for any, as long as this
// lives, and that can be listened at with SO_REUSEADDR, as c10d's TCPStore does: it is bound, and
// nobody listens.
class ReservedPort {
 public:
  ReservedPort();  // StorageError
  std::uint16_t number() const { return number_; }

 private:
  FileDescriptor socket_;
  std::uint16_t number_ = 0;
};

}  // namespace cairn
