// Ends, from another thread, the wait of a thread in poll().
#pragma once

#include <unistd.h>

#include "io/file_descriptor.h"

namespace cairn {

class Wakeup {
 public:
  // Throws StorageError if there is no descriptor left.
  Wakeup();

  // From any thread, also from a CancelHook: does not wait. A wake() while no thread waits ends the
  // next wait.
  void wake() const;

  // For poll(): readable from a wake() until take().
  int descriptor() const { return event_.get(); }
  void take() const;

  // Returns false in the child of a fork(). The child shares the descriptor with its parent, so it
  // needs another Wakeup.
  bool is_of_this_process() const { return owner_ == getpid(); }

 private:
  pid_t owner_ = getpid();
  FileDescriptor event_;
};

}  // namespace cairn
