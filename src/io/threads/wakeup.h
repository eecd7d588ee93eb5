// Ends what one thread waits for with poll(), from another.
#pragma once

#include <unistd.h>

#include "io/file_descriptor.h"

namespace cairn {

class Wakeup {
 public:
  // StorageError when there is no descriptor left.
  Wakeup();

  // From any thread, also from a CancelHook: does not wait. One that comes while nobody waits ends
  // the next wait.
  void wake() const;

  // For poll(): can be read behind a wake(), until take().
  int descriptor() const { return event_.get(); }
  void take() const;

  // False behind a fork, in the child, which has it in common with its parent: it needs another.
  bool is_of_this_process() const { return owner_ == getpid(); }

 private:
  pid_t owner_ = getpid();
  FileDescriptor event_;
};

}  // namespace cairn
