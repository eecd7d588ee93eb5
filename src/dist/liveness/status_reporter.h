// A thread that tells the other ranks about this one: its number when it waits for long, and its
// long work (LongWork). After show_life(), the thread also tells them that this rank is alive.
// Short work costs no message.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "dist/liveness/liveness_watch.h"

namespace cairn::dist {

// A rank that waits for so long tells the others its number.
inline constexpr std::chrono::milliseconds kLongWait{1000};

class StatusReporter {
 public:
  // Reports to `watch`, every `interval` if there is something to report. Keeps a reference to it.
  StatusReporter(LivenessWatch& watch, std::chrono::milliseconds interval);
  ~StatusReporter();
  StatusReporter(const StatusReporter&) = delete;
  StatusReporter& operator=(const StatusReporter&) = delete;

  // Call them around each collective. begin_waiting() advances to the next number, which is the
  // same on all ranks.
  void begin_waiting();
  void end_waiting();
  std::int64_t number();

  // Call them around a LongWork. LongWorks may be nested.
  void begin_long_work();
  void end_long_work();

  // From now on the thread also does step 3 of LivenessWatch.
  void show_life();

 private:
  using Clock = std::chrono::steady_clock;

  void report(std::chrono::milliseconds interval);
  bool is_busy(Clock::time_point now) const;

  LivenessWatch& watch_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t number_ = 0;
  bool is_waiting_ = false;
  bool shows_life_ = false;
  bool is_closing_ = false;
  int long_works_ = 0;
  Clock::time_point busy_since_;
  std::thread thread_;  // Last: the thread uses all other members.
};

}  // namespace cairn::dist
