// A store's connection, made when it is first needed, and again after it broke off.
//
//  1. Threads use the connection in turns. A cancelled thread stops waiting, for its turn or for an
//     answer.
//  2. The connection survives a cancellation: files that other threads have open on the connection,
//     and their writes, continue.
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

// The handle of an open file, valid in one session only.
struct Handle {
  std::uint64_t session = 0;  // 0: none
  std::string text = {};
};

// Things to clean up after a file was opened, or if a file will not be finished.
struct Cleanup {
  Handle handle = {};                   // closed unless empty; `asked` belongs to its session, too
  std::vector<Session::Id> asked = {};  // requests whose answers are no longer needed
  std::string temporary = {};           // a file to remove; may be empty
};

// Thread-safe: each thread has the session for the duration of its call.
class Connection {
 public:
  explicit Connection(Config config) : config_(std::move(config)) {}

  const Config& config() const { return config_; }
  std::string describe(const std::string& name) const {
    return config_.root + (name.empty() ? "" : "/" + name);
  }

  // Returns act(session). If the session is lost, tries again on a new one, as often as the options
  // say. If `progress` returned a new number since the last failure, the count starts again. Throws
  // StorageError and CancelledError.
  template <class Act>
  auto with(const Act& act, const std::function<std::uint64_t()>& progress = nullptr)
      -> decltype(act(std::declval<Session&>())) {
    std::uint64_t seen = 0;
    Retries retries(config_.retries);
    for (;;) {
      try {
        return once(act);
      } catch (StorageError& e) {
        if (progress && progress() != std::exchange(seen, progress())) retries.reset();
        retries.pause_or_rethrow(e);
      }
    }
  }

  // Like with(), without retries. If `session` is not 0, throws ConnectionLost unless that session
  // is still open.
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
      check_cancelled_here();  // throws CancelledError if that is the reason
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

  // The number of the session that act() gets. Handles that act() opens belong to that session.
  std::uint64_t session() const { return number_; }
  // Closes the handle together with the next request.
  void close_later(Handle handle) noexcept;
  // Cleans up after something failed or was cancelled. If the session is still open and soon free,
  // cleans up at once; otherwise together with the next request.
  void clean_up(Cleanup cleanup) noexcept;

 private:
  // Call leave_parent() in the thread's turn. After a fork, drops the parent's session, which the
  // child must not use. Replaces the wakeup, too: if two processes waited on one wakeup, each would
  // consume the other's signals.
  void leave_parent();
  Session& opened(std::uint64_t session);
  // Call clean_up_left() in the thread's turn. Does the cleanups that were left for later.
  void clean_up_left();
  // Call send_cleanup() in the thread's turn. Returns the last request that it sent, if any.
  std::optional<Session::Id> send_cleanup(const Cleanup& cleanup);

  const Config config_;
  Wakeup wakeup_;  // wakes the thread that has the session
  Turns turns_;    // guard the members below
  std::unique_ptr<Session> session_;
  std::uint64_t number_ = 0;  // of session_, from 1 on
  std::mutex closing_mutex_;
  std::vector<Cleanup> closing_;
};

}  // namespace cairn::sftp
