// The clock of pauses for commands that look again and again: in each pause something happens.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>

#include "io/threads/cancellation.h"

namespace cairn::cli {

// As long as the object lives. A command that pauses more often than was planned fails.
class EventfulPauses {
 public:
  EventfulPauses() { set_pause_clock(clock_); }
  ~EventfulPauses() { set_pause_clock(nullptr); }
  EventfulPauses(const EventfulPauses&) = delete;
  EventfulPauses& operator=(const EventfulPauses&) = delete;

  // Plans a happening for the next pause, or for the one after those that are planned.
  void then(std::function<void()> happening) { clock_->plan.push_back(std::move(happening)); }
  std::size_t left() const { return clock_->plan.size(); }

 private:
  struct Clock final : PauseClock {
    std::chrono::steady_clock::time_point now() override { return time; }
    void wait_for(std::chrono::milliseconds pause) override {
      time += pause;
      if (plan.empty()) throw std::runtime_error("the command did not end");
      const auto happening = std::move(plan.front());
      plan.pop_front();
      happening();
    }
    std::chrono::steady_clock::time_point time = std::chrono::steady_clock::now();
    std::deque<std::function<void()>> plan;
  };
  std::shared_ptr<Clock> clock_ = std::make_shared<Clock>();
};

}  // namespace cairn::cli
