// What threads have in turns, each for as long as it waits for somebody else: a server, a program.
// As a mutex, but that a thread whose work is cancelled stops waiting for its turn, too.
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

  std::mutex mutex_;  // held by nobody for long
  std::condition_variable ended_;
  bool is_taken_ = false;
};

// This thread's turn, until its end. Not twice in one thread.
class Turn {
 public:
  // CancelledError. With `most`, it may be none when it could not be had so soon.
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
