// A network clock that does not wait: it notes how long it would have.
#pragma once

#include <chrono>
#include <mutex>
#include <vector>

#include "net/retry.h"

namespace cairn::testing {

class FakeNetClock final : public NetClock {
 public:
  std::chrono::system_clock::time_point now() override { return std::chrono::system_clock::now(); }
  void sleep_for(std::chrono::milliseconds time) override {
    const std::scoped_lock lock(mutex_);
    slept_.push_back(time);
  }
  std::vector<std::chrono::milliseconds> slept() {
    const std::scoped_lock lock(mutex_);
    return slept_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::chrono::milliseconds> slept_;
};

}  // namespace cairn::testing
