// Trying again in the network: by the policy of io/threads/retry.h, and as the server asks for.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>

#include "io/threads/retry.h"

namespace cairn {

// The time, as far as the network needs it: tests have one that does not wait.
class NetClock {
 public:
  virtual ~NetClock() = default;
  virtual std::chrono::system_clock::time_point now() = 0;
  // CancelledError when this thread's work is cancelled (io/threads/cancellation.h).
  virtual void sleep_for(std::chrono::milliseconds time) = 0;
};

std::shared_ptr<NetClock> real_net_clock();

// How often and when; its pauses are slept by the clock.
struct NetRetries {
  // `attempts`: without progress in between.
  RetryPolicy policy = {.attempts = 8, .first_pause = std::chrono::milliseconds{100}};
  std::shared_ptr<NetClock> clock = {};  // empty: the real one
};

// The attempts at one thing. One thread at a time.
class Attempts {
 public:
  // `most` in all, when it is not 0 and less than the policy's.
  explicit Attempts(const NetRetries& retries, int most = 0)
      : retries_(retries),
        most_(most > 0 ? std::min(most, retries.policy.attempts) : retries.policy.attempts) {}

  // After one that failed: waits, and says whether there is another one. `server_asks` is what the
  // server wants as a pause; a longer one than `longest_pause` is cut.
  bool again(std::optional<std::chrono::milliseconds> server_asks = std::nullopt);
  // Something came through: counts from the beginning.
  void progress() { made_ = 0; }
  int made() const { return made_; }

 private:
  const NetRetries& retries_;
  int most_;
  int made_ = 0;  // failures since there was progress
};

// The header Retry-After: seconds, or a date. nullopt for anything else.
std::optional<std::chrono::milliseconds> retry_after(std::string_view text,
                                                     std::chrono::system_clock::time_point now);

}  // namespace cairn
