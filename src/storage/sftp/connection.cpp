#include "storage/sftp/connection.h"

namespace cairn::sftp {

Session& Connection::opened(std::uint64_t session) {
  if (session_ != nullptr && !session_->is_of_this_process()) session_.reset();  // forked
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
    Handle handle;
    {
      const std::scoped_lock lock(closing_mutex_);
      if (closing_.empty()) return;
      handle = std::move(closing_.back());
      closing_.pop_back();
    }
    if (handle.session != number_) continue;  // it went with its session
    session_->tell(Request(Packet::kClose).text(handle.text));
  }
}

void Connection::close_later(Handle handle) {
  if (handle.session == 0) return;
  const std::scoped_lock lock(closing_mutex_);
  closing_.push_back(std::move(handle));
}

void Connection::at_last(std::uint64_t session, const std::function<void(Session&)>& act) noexcept {
  const CancelScope scope(nullptr);
  try {
    const Turn turn(turns_, Session::kLastWish);
    if (!turn) return;
    Session& own = opened(session);
    try {
      act(own);
    } catch (const ConnectionLost&) {
      session_.reset();
    }
  } catch (...) {
    // whatever was meant to go stays
  }
}

}  // namespace cairn::sftp
