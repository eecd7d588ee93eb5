// Repeats operations that may succeed the next time: for a number of attempts or a time, with
// growing, random pauses.
//
// Only a StorageError with retryable() is worth another attempt. The pauses double up to the
// longest. Each is random in its upper half, so that many jobs that were refused at once do not
// return at once.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "cairn/error.h"

namespace cairn {

struct RetryPolicy {
  int attempts = 3;  // in total
  // After `attempts`, attempts continue until this time has passed since the first failure.
  std::chrono::milliseconds patience{0};
  // The option that sets `patience`, named in the final error: "save_store_patience". May be empty.
  std::string patience_option = {};
  std::chrono::milliseconds first_pause{500};
  std::chrono::milliseconds longest_pause{20000};
  // Called before each pause, on the thread that tries. null: nothing is reported.
  std::function<void(const StorageError&, std::chrono::milliseconds pause)> on_retry = nullptr;
  // Random numbers in [0, 1) for the pauses. null: an engine that every process seeds anew.
  std::function<double()> random = nullptr;
  // Waits that long. null: pause_here() (cancellation.h). May throw CancelledError to give up.
  std::function<void(std::chrono::milliseconds)> pause = nullptr;
  // Returns the time. null: pause_time() (cancellation.h).
  std::function<std::chrono::steady_clock::time_point()> now = nullptr;
};

// For RetryPolicy::on_retry: passes each retry to `add` as a line, "warning: ... trying again in 4
// s".
std::function<void(const StorageError&, std::chrono::milliseconds)> told_by_lines(
    std::function<void(std::string)> add);

// The pause after `failures` failures: between half of first_pause * 2^(failures - 1) and all of
// it. At most longest_pause.
std::chrono::milliseconds pause_after(const RetryPolicy& policy, int failures);

// Counts the failed attempts of one operation.
class Retries {
 public:
  // `policy` must outlive this object.
  explicit Retries(const RetryPolicy& policy) : policy_(policy) {}

  // After a failed attempt: pauses. If it was the last attempt, adds that to the error and rethrows
  // the exception being handled. Call it in a handler.
  void pause_or_rethrow(StorageError& error);
  // Call after a success: counts from zero again.
  void reset() { failures_ = 0; }

 private:
  bool is_last(std::chrono::milliseconds pause);

  const RetryPolicy& policy_;
  int failures_ = 0;
  std::chrono::steady_clock::time_point begin_ = {};  // of the first failure
};

// Calls `act` until it throws no retryable() StorageError, or the policy ends it. Returns its
// result. Calling `act` twice must have the same effect as once.
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
