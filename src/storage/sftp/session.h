// One connection to a server: sends requests and receives their answers.
//
//  1. Many requests may be under way. An answer belongs to the request with its id, in any order.
//  2. Only requested data is trusted: an answer without a request, or larger than its request
//     allows, ends the connection. Memory is allocated for bytes that were received, never for an
//     announced length.
//  3. A server that is silent for `stall` counts as lost. A caller that expects a slow answer (a
//     disk that receives gigabytes) passes a longer time.
//  4. A cancelled caller stops waiting, but the connection lives on: other callers use it in turns.
//     The cancelled caller's requests are forgotten. A file that the server opens for a forgotten
//     request is closed.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cairn/error.h"

#include "storage/sftp/packet_stream.h"
#include "storage/sftp/packets.h"

namespace cairn::sftp {

// The connection is unusable; the request may work on a new one.
class ConnectionLost : public StorageError {
 public:
  explicit ConnectionLost(const std::string& message) : StorageError(message, 0, true) {}
};

// Not thread-safe.
class Session {
 public:
  using Id = std::uint32_t;

  // Starts `command`, and learns what its server can do. `where` is for messages. Throws
  // ConnectionLost, and StorageError if another attempt would fail, too. `wakeup` interrupts a
  // wait, which then checks for cancellation and throws CancelledError.
  Session(const std::vector<std::string>& command, std::string where,
          std::chrono::milliseconds stall, const Wakeup* wakeup = nullptr);

  // Whether the server has an extension, in OpenSSH's version of it.
  bool has(const std::string& extension) const { return extensions_.contains(extension); }
  // Limits of one request, in bytes.
  std::uint32_t most_read() const { return most_read_; }
  std::uint32_t most_write() const { return most_write_; }

  // Queues the request, and sends it as far as possible without waiting. The answer may have up to
  // `most` bytes.
  Id send(const Request& request, std::size_t most = kShortAnswer);
  // Returns the answer. Throws ConnectionLost and CancelledError. `patience` is for answers that
  // may take the server longer than `stall`.
  Answer wait(Id id, std::chrono::milliseconds patience = {});
  Answer ask(const Request& request, std::size_t most = kShortAnswer) {
    return wait(send(request, most));
  }
  // Sends the request together with the next one. Its answer is dropped.
  Id send_and_forget(const Request& request);
  // Sends the requests of send_and_forget(), and waits for the answer to `last`, at most
  // kCleanupTime.
  void wait_for_last(Id last);
  // Drops the answer to one request, or to all requests from `first` on. The requests of other
  // callers, who use the session in turns, are not affected.
  void forget(Id id);
  void forget_from(Id first);
  Id next_id() const { return next_id_; }

  static constexpr std::chrono::seconds kCleanupTime{3};
  static constexpr std::size_t kShortAnswer = std::size_t{34} << 10;  // a path, a message
  static constexpr std::size_t kLongAnswer = std::size_t{256} << 10;  // names: OpenSSH's own limit

 private:
  struct Asked {
    std::size_t most;
    bool is_forgotten = false;
    std::optional<Answer> answer = std::nullopt;
  };

  void start();
  void learn_limits();
  // False if nothing was sent or received in that time.
  bool moved_within(std::chrono::milliseconds most);
  void pump(std::chrono::milliseconds patience = {});
  Id add(const Request& request, std::size_t most);
  // Takes the whole packets from the input.
  void take_answers();
  void take(std::string packet);
  std::size_t most_of(std::optional<Id> id) const;
  [[noreturn]] void lose(const std::string& why);

  std::string where_;
  std::chrono::milliseconds stall_;
  PacketStream stream_;
  bool is_started_ = false;
  std::map<Id, Asked> asked_;
  Id next_id_ = 1;
  std::map<std::string, std::string> extensions_;
  std::uint32_t most_read_ = std::uint32_t{32} << 10;  // the size that every server must accept
  std::uint32_t most_write_ = std::uint32_t{32} << 10;
};

}  // namespace cairn::sftp
