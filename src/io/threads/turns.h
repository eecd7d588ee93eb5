// Gives threads turns, each for as long as it waits for something outside: a server, a program.
// Like a mutex, except that a thread whose work is cancelled stops waiting for its turn.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

namespace cairn {

class Turns {
 public:
  Turns() = default;
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

 private:
  friend class Turn;

  std::mutex mutex_;  // held only briefly
  std::condition_variable ended_;
  bool is_taken_ = false;
};

// This thread's turn, until destruction. At most one per thread.
class Turn {
 public:
  // Waits for the turn. Throws CancelledError. With `most`, waits at most so long. If there was no
  // turn in this time, the Turn is false.
  explicit Turn(Turns& of, std::optional<std::chrono::milliseconds> most = std::nullopt);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  explicit operator bool() const { return is_ours_; }

 private:
  Turns& of_;
  bool is_ours_ = false;
};

}  // namespace cairn
