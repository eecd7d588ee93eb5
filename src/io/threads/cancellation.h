// Lets one thread end what another waits for: network requests, and pauses between attempts.
//
//  1. Code that may have to give up work makes a Cancellation, and a CancelScope around the work,
//     on the thread that does the work.
//  2. Code that waits inside the scope asks for the Cancellation: a pause is pause_here(), a call
//     that can be cancelled has a CancelHook. cancel() ends both, and the work ends with
//     CancelledError.
//
// A Cancellation belongs to the thread and is no argument, because every call of a store may have
// to end, even in stores that do not know of cancellation.
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

// Thread-safe.
class Cancellation {
 public:
  // `why`: the message of the CancelledErrors.
  explicit Cancellation(std::string why) : why_(std::move(why)) {}
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  // Ends everything that waits in its scopes, now and until renew().
  void cancel();
  void renew();
  bool is_cancelled() const { return is_cancelled_; }
  // Throws CancelledError if this is cancelled.
  void check() const;
  // Waits for `time`, or until this is cancelled.
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

// Makes a Cancellation this thread's own, until the end of the scope. null: nothing in the scope
// can be cancelled.
class CancelScope {
 public:
  explicit CancelScope(Cancellation* cancellation);
  ~CancelScope();
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;

 private:
  Cancellation* const before_;
};

// This thread's Cancellation; null if there is none.
Cancellation* cancellation_here();

// Throws CancelledError if this thread's work is cancelled.
void check_cancelled_here();

// Waits for `time`. Throws CancelledError if this thread's work is, or gets, cancelled.
void pause_here(std::chrono::milliseconds time);

// The clock of pauses, for tests: pause_here() waits by it.
class PauseClock {
 public:
  virtual ~PauseClock() = default;
  virtual std::chrono::steady_clock::time_point now() = 0;
  virtual void wait_for(std::chrono::milliseconds time) = 0;
};
// For the whole process; null: real time again.
void set_pause_clock(std::shared_ptr<PauseClock> clock);
// The time of that clock, or else of steady_clock.
std::chrono::steady_clock::time_point pause_time();

// Calls `act` when this thread's work is cancelled: once, in the cancelling thread. If the work is
// cancelled already, the constructor calls `act`. Never after the hook has ended. `act` must not
// wait, nor make or end a hook.
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
