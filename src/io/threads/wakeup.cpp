#include "io/threads/wakeup.h"

#include <sys/eventfd.h>

#include <cerrno>

#include "io/file_error.h"

namespace cairn {

Wakeup::Wakeup() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_.is_open()) throw_storage_error(errno, "cannot make a descriptor to wait with");
}

// Neither call fails, unless the counter is already full or empty.
void Wakeup::wake() const { eventfd_write(event_.get(), 1); }

void Wakeup::take() const {
  eventfd_t count = 0;
  eventfd_read(event_.get(), &count);
}

}  // namespace cairn
