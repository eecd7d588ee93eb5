// What may take only so long, whatever it waits for.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "io/threads/cancellation.h"

namespace cairn {

// In its scope, and in place of the Cancellation that the thread had: what waits ends with
// CancelledError, which says `why`, so long behind its making. Costs a thread. std::system_error
// when there is none to be had.
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
