#include "io/threads/turns.h"

#include "cairn/error.h"

#include "io/threads/cancellation.h"

namespace cairn {

Turn::Turn(Turns& of, std::optional<std::chrono::milliseconds> most) : of_(of) {
  bool was_cancelled = false;  // stays true if the Cancellation is renewed; guarded by the lock
  const CancelHook hook([&] {
    const std::scoped_lock lock(of_.mutex_);
    was_cancelled = true;
    of_.ended_.notify_all();
  });
  {
    std::unique_lock lock(of_.mutex_);
    const auto is_over = [&] { return !of_.is_taken_ || was_cancelled; };
    if (most) {
      of_.ended_.wait_for(lock, *most, is_over);
    } else {
      of_.ended_.wait(lock, is_over);
    }
    is_ours_ = !of_.is_taken_ && !was_cancelled;
    if (is_ours_) of_.is_taken_ = true;
  }
  if (is_ours_) return;
  check_cancelled_here();
  if (most) return;
  throw CancelledError("cancelled while this thread waited for its turn");
}

Turn::~Turn() {
  if (!is_ours_) return;
  {
    const std::scoped_lock lock(of_.mutex_);
    of_.is_taken_ = false;
  }
  of_.ended_.notify_all();  // a single woken thread could be cancelled, and take no turn
}

}  // namespace cairn
