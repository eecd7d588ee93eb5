#include "storage/sftp/connection.h"

namespace cairn::sftp {

void Connection::leave_parent() {
  if (wakeup_.is_of_this_process()) return;
  session_.reset();
  wakeup_ = Wakeup();
}

Session& Connection::opened(std::uint64_t session) {
  const bool is_there = session_ != nullptr && (session == 0 || session == number_);
  if (session != 0 && !is_there) {
    throw ConnectionLost(config_.root + ": the connection broke off");
  }
  if (session_ == nullptr) {
    check_cancelled_here();
    session_ = std::make_unique<Session>(config_.command, config_.root, config_.stall, &wakeup_);
    ++number_;
  }
  clean_up_left();
  return *session_;
}

void Connection::clean_up_left() {
  for (;;) {
    Cleanup cleanup;
    {
      const std::scoped_lock lock(closing_mutex_);
      if (closing_.empty()) return;
      cleanup = std::move(closing_.back());
      closing_.pop_back();
    }
    send_cleanup(cleanup);
  }
}

std::optional<Session::Id> Connection::send_cleanup(const Cleanup& cleanup) {
  std::optional<Session::Id> last;
  if (cleanup.handle.session == number_) {  // otherwise the handle ended with its session
    for (const Session::Id id : cleanup.asked)
      session_->forget(id);
    if (!cleanup.handle.text.empty()) {
      last = session_->send_and_forget(Request(Packet::kClose).text(cleanup.handle.text));
    }
  }
  if (!cleanup.temporary.empty()) {
    last = session_->send_and_forget(Request(Packet::kRemove).text(cleanup.temporary));
  }
  return last;
}

void Connection::close_later(Handle handle) noexcept {
  if (handle.session == 0) return;
  try {
    const std::scoped_lock lock(closing_mutex_);
    closing_.push_back({.handle = std::move(handle)});
  } catch (const std::bad_alloc&) {  // The server closes the handle when the session ends.
  }
}

void Connection::clean_up(Cleanup cleanup) noexcept {
  const CancelScope scope(nullptr);
  try {
    const Turn turn(turns_, Session::kCleanupTime);
    if (!turn) {
      const std::scoped_lock lock(closing_mutex_);
      closing_.push_back(std::move(cleanup));
      return;
    }
    leave_parent();
    Session& own = opened(cleanup.handle.session);
    try {
      if (const auto last = send_cleanup(cleanup)) own.wait_for_last(*last);
    } catch (const ConnectionLost&) {
      session_.reset();
    }
  } catch (...) {
    // The leftovers stay.
  }
}

}  // namespace cairn::sftp
