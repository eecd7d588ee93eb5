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
    session_ = std::make_unique<Session>(config_.command, config_.root, config_.stall);
    ++number_;
  }
  std::vector<Handle> closing;
  {
    const std::scoped_lock lock(closing_mutex_);
    closing.swap(closing_);
  }
  try {
    for (const Handle& handle : closing) {
      if (handle.session != number_) continue;  // it went with its session
      session_->forget(session_->send(Request(Packet::kClose).text(handle.text)));
    }
  } catch (const ConnectionLost&) {
    session_.reset();
    throw;
  }
  return *session_;
}

void Connection::close_later(Handle handle) {
  if (handle.session == 0) return;
  const std::scoped_lock lock(closing_mutex_);
  closing_.push_back(std::move(handle));
}

}  // namespace cairn::sftp
