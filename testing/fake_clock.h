// A network clock that does not wait: it notes how long it would have waited.
#pragma once

#include <chrono>
#include <mutex>
#include <vector>

#include "net/retry.h"

namespace cairn::testing {

class FakeNetClock final : public NetClock {
 public:
  // `skew`: how far the machine's clock is ahead.
  explicit FakeNetClock(std::chrono::seconds skew = {}) : skew_(skew) {}

  std::chrono::system_clock::time_point now() override {
    return std::chrono::system_clock::now() + skew_;
  }
  void sleep_for(std::chrono::milliseconds time) override {
    const std::scoped_lock lock(mutex_);
    slept_.push_back(time);
  }
  std::vector<std::chrono::milliseconds> slept() {
    const std::scoped_lock lock(mutex_);
    return slept_;
  }

 private:
  const std::chrono::seconds skew_;
  std::mutex mutex_;
  std::vector<std::chrono::milliseconds> slept_;
};

}  // namespace cairn::testing
