// One connection to a server: requests that are sent, and answers that come for them.
//
//  1. Many requests may be under way; an answer is its request's by its id, in whatever order.
//  2. What comes is believed only as far as it was asked for: an answer to nothing, and one that is
//     larger than its request allows, end the connection. Memory is taken for bytes that came, and
//     never for a length that was only announced.
//  3. A server that says nothing for `stall` is taken for lost; who knows that an answer takes it
//     longer (a disk that gets gigabytes) says so.
//  4. Who is cancelled stops waiting, and the connection lives on: others have it in turns. What
//     was asked is forgotten; a file that the server opens for nobody is closed.
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

// The connection is of no use any more; what was asked may work on another one.
class ConnectionLost : public StorageError {
 public:
  explicit ConnectionLost(const std::string& message) : StorageError(message, 0, true) {}
};

// One thread at a time.
class Session {
 public:
  using Id = std::uint32_t;

  // Starts `command`, and learns what its server can do. `where` is for messages. ConnectionLost;
  // StorageError when another attempt would be no better. `wakeup` makes what waits look whether
  // it is cancelled: then it ends with CancelledError.
  Session(const std::vector<std::string>& command, std::string where,
          std::chrono::milliseconds stall, const Wakeup* wakeup = nullptr);

  // Whether the server has an extension, in the version that OpenSSH has it.
  bool has(const std::string& extension) const { return extensions_.contains(extension); }
  // Of one request, in bytes.
  std::uint32_t most_read() const { return most_read_; }
  std::uint32_t most_write() const { return most_write_; }

  // Sends it, as far as that needs no waiting. The answer may have `most` bytes.
  Id send(const Request& request, std::size_t most = kShortAnswer);
  // Its answer. ConnectionLost, CancelledError. `patience`: of what may take the server longer than
  // `stall`, without a word.
  Answer wait(Id id, std::chrono::milliseconds patience = {});
  Answer ask(const Request& request, std::size_t most = kShortAnswer) {
    return wait(send(request, most));
  }
  // Sends it with what is sent next. Nobody will see its answer.
  Id tell(const Request& request);
  // Sends what was told, and waits for the answer to `last` of it, for kLastWish at most.
  void settle(Id last);
  // Nobody will wait for its answer; for those of what is sent from `first` on. Others', who have
  // the session in turns, are not touched.
  void forget(Id id);
  void forget_from(Id first);
  Id next_id() const { return next_id_; }

  static constexpr std::chrono::seconds kLastWish{3};
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
  // False when nothing moved for so long.
  bool moved_within(std::chrono::milliseconds most);
  void pump(std::chrono::milliseconds patience = {});
  Id add(const Request& request, std::size_t most);
  // Takes whole packets off what came.
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
  std::uint32_t most_read_ = std::uint32_t{32} << 10;  // what every server must take
  std::uint32_t most_write_ = std::uint32_t{32} << 10;
};

}  // namespace cairn::sftp
