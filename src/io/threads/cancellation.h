// Ending, from another thread, what one thread waits for: requests of the network, pauses between
// attempts.
//
//  1. Who may have to give up work makes a Cancellation, and a CancelScope around the work, on the
//     thread that does it.
//  2. What waits in there asks for it: a pause is pause_here(), a call that can be cancelled has a
//     CancelHook. Both are ended by cancel(), and what they belong to ends with CancelledError.
//
// The thread's, and no argument: every call of a store may have to end, also those of stores that
// know nothing of it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace cairn {

// Safe from several threads.
class Cancellation {
 public:
  // `why`: what the CancelledErrors say.
  explicit Cancellation(std::string why) : why_(std::move(why)) {}
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  // Ends all that waits in its scopes, now and until renew().
  void cancel();
  void renew();
  bool is_cancelled() const { return is_cancelled_; }
  // CancelledError when it is.
  void check() const;
  // Waits that long, or until it is cancelled.
  void wait_for(std::chrono::milliseconds time);

 private:
  friend class CancelHook;

  const std::string why_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> is_cancelled_ = false;  // changed under the lock, before the hooks are called
  std::uint64_t next_hook_ = 0;
  std::map<std::uint64_t, const std::function<void()>*> hooks_;
};

// Makes it this thread's, until its end; null: nothing in it can be cancelled.
class CancelScope {
 public:
  explicit CancelScope(Cancellation* cancellation);
  ~CancelScope();
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;

 private:
  Cancellation* const before_;
};

// This thread's; null when there is none.
Cancellation* cancellation_here();

// CancelledError when this thread's work is cancelled.
void check_cancelled_here();

// Waits that long; CancelledError when this thread's work is cancelled before, or was.
void pause_here(std::chrono::milliseconds time);

// The time by which pauses are made, for tests: pause_here() waits by it.
class PauseClock {
 public:
  virtual ~PauseClock() = default;
  virtual std::chrono::steady_clock::time_point now() = 0;
  virtual void wait_for(std::chrono::milliseconds time) = 0;
};
// For the whole process; null: the real time again.
void set_pause_clock(std::shared_ptr<PauseClock> clock);
// By that clock, or else by steady_clock.
std::chrono::steady_clock::time_point pause_time();

// Calls `act` when this thread's work is cancelled: once, in the thread that cancels, or at once
// when it is cancelled already. Behind its end never. `act` must not wait, nor make or end a hook.
class CancelHook {
 public:
  explicit CancelHook(std::function<void()> act);
  ~CancelHook();
  CancelHook(const CancelHook&) = delete;
  CancelHook& operator=(const CancelHook&) = delete;

  bool is_cancelled() const { return of_ != nullptr && of_->is_cancelled(); }

 private:
  Cancellation* const of_;
  const std::function<void()> act_;
  std::uint64_t number_ = 0;
};

}  // namespace cairn
