#include "io/threads/time_limit.h"

#include <utility>

namespace cairn {

TimeLimit::TimeLimit(std::string why, std::chrono::milliseconds most)
    : cancellation_(std::move(why)), timer_([this, most] {
        std::unique_lock lock(mutex_);
        if (!ended_.wait_for(lock, most, [this] { return is_over_; })) cancellation_.cancel();
      }) {}

TimeLimit::~TimeLimit() {
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  ended_.notify_all();
  timer_.join();
}

}  // namespace cairn
