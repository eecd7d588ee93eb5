// The meeting place of a job's ranks, where they tell one another about their checkpoints: keys
// with values, kept in one place for all. c10d's TCPStore is one (dist/store_meeting.h).
//
// A meeting place has no collectives, so a rank that does not come blocks no other rank. A waiting
// rank asks repeatedly (find()), so it can notice at the same time that another rank is gone.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "cairn/error.h"

namespace cairn {

// The meeting place cannot be reached: the process that hosts it has ended, or the network is cut.
// The same call may work later.
class MeetingError : public Error {
 public:
  using Error::Error;
};

// One rank's access to the meeting place. Only one thread at a time may use it. Every call returns
// within seconds or throws MeetingError. A call that throws may or may not have taken effect. All
// calls are idempotent.
class Meeting {
 public:
  using Time = std::chrono::steady_clock::time_point;

  virtual ~Meeting() = default;

  // After set() has returned, every rank that asks sees the value.
  virtual void set(const std::string& key, const std::string& value) = 0;
  // nullopt if no rank has set the key.
  virtual std::optional<std::string> find(const std::string& key) = 0;
  // If the key has the value `from`, sets it to `to`. Returns the value that the key has
  // afterwards. If several ranks do this at once, one succeeds, and all get the value that it has
  // set. nullopt if no rank has set the key.
  virtual std::optional<std::string> exchange(const std::string& key, const std::string& from,
                                              const std::string& to) = 0;
  virtual void remove(const std::string& key) = 0;

  // This rank's clock. Nothing depends on its difference from other ranks' clocks.
  virtual Time now();
  // Waits. Throws CancelledError if this thread's work is cancelled (io/threads/cancellation.h).
  virtual void pause(std::chrono::milliseconds time);
};

// The meeting place of a job of one process, in its memory.
std::shared_ptr<Meeting> meeting_of_one();

}  // namespace cairn
