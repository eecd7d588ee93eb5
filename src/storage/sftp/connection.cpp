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
  close_left();
  return *session_;
}

void Connection::close_left() {
  for (;;) {
    Leavings leavings;
    {
      const std::scoped_lock lock(closing_mutex_);
      if (closing_.empty()) return;
      leavings = std::move(closing_.back());
      closing_.pop_back();
    }
    tell(leavings);
  }
}

std::optional<Session::Id> Connection::tell(const Leavings& leavings) {
  std::optional<Session::Id> last;
  if (leavings.handle.session == number_) {  // or it went with its session
    for (const Session::Id id : leavings.asked)
      session_->forget(id);
    if (!leavings.handle.text.empty()) {
      last = session_->tell(Request(Packet::kClose).text(leavings.handle.text));
    }
  }
  if (!leavings.temporary.empty()) {
    last = session_->tell(Request(Packet::kRemove).text(leavings.temporary));
  }
  return last;
}

void Connection::close_later(Handle handle) noexcept {
  if (handle.session == 0) return;
  try {
    const std::scoped_lock lock(closing_mutex_);
    closing_.push_back({.handle = std::move(handle)});
  } catch (const std::bad_alloc&) {  // the server closes it when the session ends
  }
}

void Connection::let_go(Leavings leavings) noexcept {
  const CancelScope scope(nullptr);
  try {
    const Turn turn(turns_, Session::kLastWish);
    if (!turn) {
      const std::scoped_lock lock(closing_mutex_);
      closing_.push_back(std::move(leavings));
      return;
    }
    leave_parent();
    Session& own = opened(leavings.handle.session);
    try {
      if (const auto last = tell(leavings)) own.settle(*last);
    } catch (const ConnectionLost&) {
      session_.reset();
    }
  } catch (...) {
    // whatever was meant to go stays
  }
}

}  // namespace cairn::sftp
