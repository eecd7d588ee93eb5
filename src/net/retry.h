// When, and how often, something that failed is tried again.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

namespace cairn {

// The time, as far as the network needs it: tests have one that does not wait.
class NetClock {
 public:
  virtual ~NetClock() = default;
  virtual std::chrono::system_clock::time_point now() = 0;
  virtual void sleep_for(std::chrono::milliseconds time) = 0;
};

std::shared_ptr<NetClock> real_net_clock();

struct RetryPolicy {
  int attempts = 8;  // in all, without progress in between; 1: no second one
  // Before attempt n + 1: between half of first * 2^(n-1) and all of it, at most `longest`.
  std::chrono::milliseconds first{100};
  std::chrono::milliseconds longest{20'000};
  // Gives numbers of [0, 1): the jitter that keeps many clients from coming back at once.
  std::function<double()> random = {};   // empty: an engine that every process seeds anew
  std::shared_ptr<NetClock> clock = {};  // empty: the real one
};

// The attempts at one thing. One thread at a time.
class Attempts {
 public:
  // `most` in all, when it is not 0 and less than the policy's.
  explicit Attempts(const RetryPolicy& policy, int most = 0)
      : policy_(policy), most_(most > 0 ? std::min(most, policy.attempts) : policy.attempts) {}

  // After one that failed: waits, and says whether there is another one. `server_asks` is what the
  // server wants as a pause; a longer one than `longest` is cut.
  bool again(std::optional<std::chrono::milliseconds> server_asks = std::nullopt);
  // Something came through: counts from the beginning.
  void progress() { made_ = 0; }
  int made() const { return made_; }

 private:
  const RetryPolicy& policy_;
  int most_;
  int made_ = 0;  // failures since there was progress
};

// The header Retry-After: seconds, or a date. nullopt for anything else.
std::optional<std::chrono::milliseconds> retry_after(std::string_view text,
                                                     std::chrono::system_clock::time_point now);

}  // namespace cairn
