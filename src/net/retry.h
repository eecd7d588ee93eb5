// Retries in the network: the policy of io/threads/retry.h, and the pauses that a server asks for.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>

#include "io/threads/retry.h"

namespace cairn {

// The clock of network code. Tests use a clock that does not wait.
class NetClock {
 public:
  virtual ~NetClock() = default;
  virtual std::chrono::system_clock::time_point now() = 0;
  // Throws CancelledError if this thread's work is cancelled (io/threads/cancellation.h).
  virtual void sleep_for(std::chrono::milliseconds time) = 0;
};

std::shared_ptr<NetClock> real_net_clock();

// How often and when to retry; the clock sleeps the pauses.
struct NetRetries {
  // `attempts` counts attempts without progress in between.
  RetryPolicy policy = {.attempts = 8, .first_pause = std::chrono::milliseconds{100}};
  std::shared_ptr<NetClock> clock = {};  // empty: the real one
};

// Counts the attempts at one operation. Not thread-safe.
class Attempts {
 public:
  // `most` limits the attempts if it is not 0 and is less than the policy's number.
  explicit Attempts(const NetRetries& retries, int most = 0)
      : retries_(retries),
        most_(most > 0 ? std::min(most, retries.policy.attempts) : retries.policy.attempts) {}

  // Called after a failed attempt: pauses, and returns whether to try again. `server_asks` is the
  // pause that the server asks for, cut to `longest_pause`.
  bool wait_for_next(std::optional<std::chrono::milliseconds> server_asks = std::nullopt);
  // Called when bytes have arrived: the count starts again.
  void reset() { made_ = 0; }
  int made() const { return made_; }

 private:
  const NetRetries& retries_;
  int most_;
  int made_ = 0;  // failures since the last progress
};

// Parses the header Retry-After: seconds, or a date. Returns nullopt for anything else.
std::optional<std::chrono::milliseconds> retry_after(std::string_view text,
                                                     std::chrono::system_clock::time_point now);

}  // namespace cairn
