// Several processes in one thread, with a clock of their own: what they do, and in which order, is
// the same each time for the same seed.
//
// Each runs on a stack of its own until it pauses; then the one goes on whose time comes first, and
// the clock is moved there. Nothing else moves it. Code that is run so is the code that runs in
// production: it only has to wait through pause(), and must not hold a lock that others want then.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace cairn::testing {

class Fibers {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Fibers();
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  // Begins with run(). What `body` throws ends the program: it has to catch what it expects.
  void spawn(std::function<void()> body);
  // Until all have ended, or `is_enough`, asked between any two turns, says so: the others stay
  // where they are until the next run. Those that have not ended by the destructor never do.
  void run(const std::function<bool()>& is_enough = nullptr);

  Time now() const { return now_; }
  // Of the one that runs: the others go on, and this one not before that time has passed. Those
  // whose time comes at once take turns in the order in which they paused.
  void pause(std::chrono::nanoseconds time);

 private:
  struct Fiber;
  static void enter(unsigned high, unsigned low);
  void resume(Fiber& fiber);
  void leave(bool is_end);

  struct Impl;
  std::unique_ptr<Impl> impl_;
  Time now_ = Time(std::chrono::hours(1000));
};

}  // namespace cairn::testing
