#include "train/engine/signal_watch.h"

#include <signal.h>

#include <array>
#include <atomic>
#include <mutex>

namespace cairn {
namespace {

// A signal handler can reach only globals.
std::atomic<int> servers = 0;      // Watches that expect to serve.
std::atomic<int> stop_signal = 0;  // Requested, and not yet taken.
std::atomic<int> save_signal = 0;
std::atomic<int> interrupts = 0;  // SIGTERM and SIGINT so far.
static_assert(std::atomic<int>::is_always_lock_free);

constexpr std::array kSignals = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2};

bool is_interrupt(int number) { return number == SIGTERM || number == SIGINT; }

std::mutex install_mutex;
int watches = 0;  // guarded by install_mutex
std::array<struct sigaction, kSignals.size()> displaced =
    {};  // written while no handler is installed

void raise_with_previous_handler(int number) {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if (kSignals[i] == number) ::sigaction(number, &displaced[i], nullptr);
  }
  ::raise(number);
}

extern "C" void cairn_on_signal(int number) {
  if (number == SIGUSR2) {
    save_signal = number;
    return;
  }
  if (is_interrupt(number) && (interrupts.fetch_add(1) > 0 || servers == 0)) {
    raise_with_previous_handler(number);  // delivered when this handler returns
    return;
  }
  stop_signal = number;
}

void install() {
  stop_signal = 0;
  save_signal = 0;
  interrupts = 0;
  struct sigaction action = {};
  action.sa_handler = cairn_on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &displaced[i]);
    // The program was started to ignore this signal, for example as a shell's background job.
    if (displaced[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &action, nullptr);
  }
}

}  // namespace

SignalWatch::SignalWatch() {
  const std::scoped_lock lock(install_mutex);
  if (watches++ == 0) install();
  servers += 1;
  serving_ = true;
}

SignalWatch::~SignalWatch() {
  const std::scoped_lock lock(install_mutex);
  if (serving_) servers -= 1;
  if (--watches > 0) return;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &displaced[i], nullptr);
  }
}

void SignalWatch::expect_to_serve(bool will_serve) {
  if (serving_ == will_serve) return;
  serving_ = will_serve;
  servers += will_serve ? 1 : -1;
}

AskedSignals take_signals() { return {save_signal.exchange(0), stop_signal.exchange(0)}; }

bool is_stop_asked() { return stop_signal != 0; }

void leave_if_interrupted() {
  if (servers > 0) return;
  int asked = stop_signal;
  if (is_interrupt(asked) && stop_signal.compare_exchange_strong(asked, 0))
    raise_with_previous_handler(asked);
}

}  // namespace cairn
