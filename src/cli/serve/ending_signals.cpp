#include "cli/serve/ending_signals.h"

namespace cairn::cli {
namespace {

sigset_t ending_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

EndingSignals::EndingSignals() {
  const sigset_t signals = ending_signals();
  pthread_sigmask(SIG_BLOCK, &signals, &before_);
}

EndingSignals::~EndingSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

void EndingSignals::wait() const {
  const sigset_t signals = ending_signals();
  int number = 0;
  sigwait(&signals, &number);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void EndingSignals::end() const { pthread_kill(waiting_, SIGTERM); }

}  // namespace cairn::cli
