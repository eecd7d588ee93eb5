// The connection of a store, made when it is first needed and again when it broke off.
//
//  1. Threads have it in turns; who is cancelled stops waiting for its turn, or for an answer.
//  2. The connection survives that: what other threads have open on it, and write, goes on.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/threads/cancellation.h"
#include "io/threads/retry.h"
#include "io/threads/turns.h"
#include "io/threads/wakeup.h"
#include "storage/sftp/config.h"
#include "storage/sftp/session.h"

namespace cairn::sftp {

// Of a file that is open; it is so in one session only.
struct Handle {
  std::uint64_t session = 0;  // 0: none
  std::string text = {};
};

// What is to go of a file that was opened, or that nobody will finish.
struct Leavings {
  Handle handle = {};                   // the session of what follows; closed unless it is empty
  std::vector<Session::Id> asked = {};  // whose answers nobody waits for any more
  std::string temporary = {};           // the file to be removed, if any
};

// Safe from several threads: each has the session for as long as its call takes.
class Connection {
 public:
  explicit Connection(Config config) : config_(std::move(config)) {}

  const Config& config() const { return config_; }
  std::string describe(const std::string& name) const {
    return config_.root + (name.empty() ? "" : "/" + name);
  }

  // What `act` gives of a session; on another one when it is lost, as often as the options say,
  // counted from where `progress`, if any, gave another number. StorageError, CancelledError.
  template <class Act>
  auto with(const Act& act, const std::function<std::uint64_t()>& progress = nullptr)
      -> decltype(act(std::declval<Session&>())) {
    std::uint64_t seen = 0;
    Retries retries(config_.retries);
    for (;;) {
      try {
        return once(act);
      } catch (StorageError& e) {
        if (progress && progress() != std::exchange(seen, progress())) retries.progress();
        retries.pause_or_rethrow(e);
      }
    }
  }

  // The same once, and, unless it is 0, on that session and no other: ConnectionLost.
  template <class Act>
  auto once(const Act& act, std::uint64_t session = 0) -> decltype(act(std::declval<Session&>())) {
    const Turn turn(turns_);
    leave_parent();
    const CancelHook hook([this] { wakeup_.wake(); });
    Session& own = opened(session);
    const Session::Id first = own.next_id();
    try {
      return act(own);
    } catch (const ConnectionLost&) {
      session_.reset();
      check_cancelled_here();  // says why
      throw;
    } catch (StorageError& e) {
      own.forget_from(first);
      if (std::string_view(e.what()).find(config_.root) == std::string_view::npos) {
        e.add_context(config_.root);
      }
      throw;
    } catch (...) {
      own.forget_from(first);
      throw;
    }
  }

  // Of the session that act() has: what its handles belong to.
  std::uint64_t session() const { return number_; }
  // Closes it with what is sent next.
  void close_later(Handle handle) noexcept;
  // For the end of what failed or was cancelled: lets it go on its session, if that is still there
  // and has its turn soon; otherwise with what is sent next.
  void let_go(Leavings leavings) noexcept;

 private:
  // In its turn, in a process that was forked off: what it has of the other one's is none of its
  // business any more. Of a wakeup that two processes wait with, one would take the other's.
  void leave_parent();
  Session& opened(std::uint64_t session);
  // In its turn: what was left for later.
  void close_left();
  // In its turn. The last request that it made, if any.
  std::optional<Session::Id> tell(const Leavings& leavings);

  const Config config_;
  Wakeup wakeup_;  // of who has the session
  Turns turns_;    // of what follows
  std::unique_ptr<Session> session_;
  std::uint64_t number_ = 0;  // of session_, from 1 on
  std::mutex closing_mutex_;
  std::vector<Leavings> closing_;
};

}  // namespace cairn::sftp
