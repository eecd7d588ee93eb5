// Where the ranks of a job tell each other what becomes of a checkpoint: names with values, which
// one place keeps for all. c10d's TCPStore is one (dist/store_meeting.h).
//
// No collective is in it: a rank that does not come holds up nobody. Who waits asks again and again
// (find()), and so can see at the same time whom it waits for in vain.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "cairn/error.h"

namespace cairn {

// The place cannot be reached: the process that hosts it ended, or the network is cut. The same
// call may work later.
class MeetingError : public Error {
 public:
  using Error::Error;
};

// One rank's way to the place. One thread at a time. Every call returns within seconds, or throws
// MeetingError; it may have been done then. All are idempotent.
class Meeting {
 public:
  using Time = std::chrono::steady_clock::time_point;

  virtual ~Meeting() = default;

  // When it has returned, every rank that asks sees it.
  virtual void set(const std::string& key, const std::string& value) = 0;
  // nullopt when nobody has set it.
  virtual std::optional<std::string> find(const std::string& key) = 0;
  // Of a key with the value `from`: makes it `to`. What it is then, for all: of several who do this
  // at once one succeeds, and all are told whose value stands. nullopt when nobody has set it.
  virtual std::optional<std::string> exchange(const std::string& key, const std::string& from,
                                              const std::string& to) = 0;
  virtual void remove(const std::string& key) = 0;

  // This rank's clock; nothing depends on how it stands to those of others.
  virtual Time now();
  // Waits. CancelledError when this thread's work is cancelled (io/threads/cancellation.h).
  virtual void pause(std::chrono::milliseconds time);
};

// Of a job of one process, in its memory.
std::shared_ptr<Meeting> meeting_of_one();

}  // namespace cairn
