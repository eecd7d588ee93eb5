// Limits the time of work, whatever it waits for.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "io/threads/cancellation.h"

namespace cairn {

// Replaces the thread's Cancellation while this object lives. Work that still waits when `most` has
// passed since construction ends with CancelledError, with the message `why`. Costs a thread.
// Throws std::system_error if no thread is available.
class TimeLimit {
 public:
  TimeLimit(std::string why, std::chrono::milliseconds most);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

 private:
  Cancellation cancellation_;
  const CancelScope scope_{&cancellation_};
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_over_ = false;
  std::thread timer_;
};

}  // namespace cairn
