// Ends, from another thread, what one thread waits for with poll().
#pragma once

#include <unistd.h>

#include "io/file_descriptor.h"

namespace cairn {

class Wakeup {
 public:
  // Throws StorageError when there is no descriptor left.
  Wakeup();

  // From any thread, also from a CancelHook: does not wait. A wake() while no thread waits ends the
  // next wait.
  void wake() const;

  // For poll(): readable from a wake() until take().
  int descriptor() const { return event_.get(); }
  void take() const;

  // Returns false in the child of a fork(), which shares it with its parent: the child needs
  // another.
  bool is_of_this_process() const { return owner_ == getpid(); }

 private:
  pid_t owner_ = getpid();
  FileDescriptor event_;
};

}  // namespace cairn
