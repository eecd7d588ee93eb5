// Trying again what may work the next time: so often, or for so long, and no more, with growing,
// uneven pauses.
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
  // After `attempts` it goes on until so much time has passed since the first failure.
  std::chrono::milliseconds patience{0};
  // The option that gives more patience, for the error that ends it: "save_store_patience". May be
  // empty.
  std::string patience_option = {};
  std::chrono::milliseconds first_pause{500};
  std::chrono::milliseconds longest_pause{20000};
  // Called before each pause; null: nobody is told. On the thread that tries.
  std::function<void(const StorageError&, std::chrono::milliseconds pause)> on_retry = nullptr;
  // Numbers of [0, 1), for the pauses; an engine that every process seeds anew when null.
  std::function<double()> random = nullptr;
  // Waits that long; pause_here() (cancellation.h) when null. May throw to give up: CancelledError.
  std::function<void(std::chrono::milliseconds)> pause = nullptr;
  // The time; pause_time() (cancellation.h) when null.
  std::function<std::chrono::steady_clock::time_point()> now = nullptr;
};

// For RetryPolicy::on_retry: each retry as a line, "warning: ... trying again in 4 s".
std::function<void(const StorageError&, std::chrono::milliseconds)> told_by_lines(
    std::function<void(std::string)> add);

// How long to wait after that many failures: between half of first_pause * 2^(failures - 1) and
// all of it, of longest_pause at most.
std::chrono::milliseconds pause_behind(const RetryPolicy& policy, int failures);

// The failed attempts at one thing.
class Retries {
 public:
  // `policy` must outlive it.
  explicit Retries(const RetryPolicy& policy) : policy_(policy) {}

  // After a failed attempt: pauses, or adds to the error that it was the last attempt and rethrows
  // what is being handled. To be called in a handler.
  void pause_or_rethrow(StorageError& error);
  // Something came through: counts from the beginning.
  void progress() { failures_ = 0; }

 private:
  bool is_last(std::chrono::milliseconds pause);

  const RetryPolicy& policy_;
  int failures_ = 0;
  std::chrono::steady_clock::time_point begin_ = {};  // of the first failure
};

// Calls `act` until it throws no StorageError that is retryable(), or the policy ends it. Returns
// its result. `act` must be the same when it is done twice.
template <class Act>
auto with_retries(const RetryPolicy& policy, const Act& act) -> decltype(act()) {
  Retries retries(policy);
  for (;;) {
    try {
      return act();
    } catch (StorageError& e) {
      retries.pause_or_rethrow(e);
    }
  }
}

}  // namespace cairn
