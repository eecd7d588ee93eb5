// Simulates several processes in one thread, with their own clock. For a given seed they do the
// same things in the same order every time.
//
// Each process runs on its own stack until it pauses. Then the process with the earliest time
// continues, and the clock is set to that time. Nothing else moves the clock. The code that runs
// here is the production code. The code must wait only through pause(), and while it waits it must
// not hold a lock that another process needs.
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

  // Adds a process that starts with run(). An exception that leaves `body` ends the program, so
  // `body` catches what it expects.
  void spawn(std::function<void()> body);
  // Runs the processes until all have ended, or until `is_enough` returns true. `is_enough` is
  // called between any two turns. Processes that have not ended stay where they are until the next
  // run(). If this object is destroyed first, they never end.
  void run(const std::function<bool()>& is_enough = nullptr);

  Time now() const { return now_; }
  // Called by the running process. The other processes run, and the caller does not continue before
  // `time` has passed. Processes that are due at the same time take turns in the order in which
  // they paused.
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
