// Trying again what may work the next time: so often and no more, with growing, uneven pauses.
//
// Only a StorageError that says retryable() is worth another attempt. The pauses double up to the
// longest, and each is somewhere in its upper half, so that many jobs that were refused at once do
// not come back at once.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "cairn/error.h"

namespace cairn {

struct RetryPolicy {
  int attempts = 3;  // all in all
  std::chrono::milliseconds first_pause{500};
  std::chrono::milliseconds longest_pause{20000};
  // Numbers of [0, 1), for the pauses; an engine that every process seeds anew when null.
  std::function<double()> random = nullptr;
  // Waits that long; pause_here() (cancellation.h) when null. May throw to give up: CancelledError.
  std::function<void(std::chrono::milliseconds)> pause = nullptr;
};

// How long to wait behind that many failures: between half of first_pause * 2^(failures - 1) and
// all of it, of longest_pause at most.
std::chrono::milliseconds pause_behind(const RetryPolicy& policy, int failures);

// Behind the failed attempt `attempt`, counted from 1: pauses, or adds to the error that it was the
// last attempt and rethrows what is being handled. To be called in a handler.
void pause_or_rethrow(const RetryPolicy& policy, int attempt, StorageError& error);

// What `act` gives, called up to policy.attempts times. Must be the same when it is done twice.
template <class Act>
auto with_retries(const RetryPolicy& policy, const Act& act) -> decltype(act()) {
  for (int attempt = 1;; ++attempt) {
    try {
      return act();
    } catch (StorageError& e) {
      pause_or_rethrow(policy, attempt, e);
    }
  }
}

}  // namespace cairn
