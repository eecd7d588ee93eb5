// Waits until this process is asked to end, for commands that otherwise run for ever.
#pragma once

#include <pthread.h>

#include <csignal>

namespace cairn::cli {

// SIGINT and SIGTERM end wait(), and not the process. This holds for threads that start later, too.
// After the destructor the signals do what they did before.
class EndingSignals {
 public:
  EndingSignals();
  ~EndingSignals();
  EndingSignals(const EndingSignals&) = delete;
  EndingSignals& operator=(const EndingSignals&) = delete;

  // Returns when one of the signals has come, or after end(). From then on the next signal ends the
  // process at once. Call it once, from the thread that has made this.
  void wait() const;
  // Ends wait(), from any thread.
  void end() const;

 private:
  pthread_t waiting_ = pthread_self();
  sigset_t before_{};
};

}  // namespace cairn::cli
