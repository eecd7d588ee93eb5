#include "storage/sftp/session.h"

#include <algorithm>

#include "core/text/printable.h"
#include "io/threads/cancellation.h"

namespace cairn::sftp {
namespace {

constexpr std::uint32_t kVersion = 3;
constexpr std::size_t kMaxAnswer = (std::size_t{256} << 10) + 1024;
// The largest request, even if the server allows larger ones.
constexpr std::uint32_t kMaxAtOnce = std::uint32_t{255} << 10;

// Whether ssh's messages mean that another attempt would fail, too.
bool is_final(const std::string& messages) {
  for (const char* text : {"Permission denied", "Host key verification failed", "Bad configuration",
                           "subsystem request failed"}) {
    if (messages.find(text) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

Session::Session(const std::vector<std::string>& command, std::string where,
                 std::chrono::milliseconds stall, const Wakeup* wakeup)
    : where_(std::move(where)), stall_(stall), stream_(command, wakeup) {
  start();
  learn_limits();
}

void Session::start() {
  stream_.put(Request(Packet::kInit).u32(kVersion).packet(std::nullopt));
  while (!is_started_)
    pump();
}

// OpenSSH reports its limits since version 8.5. Larger requests mean fewer requests.
void Session::learn_limits() {
  if (!has("limits@openssh.com")) return;
  Answer answer = ask(Request(Packet::kExtended).text("limits@openssh.com"));
  if (answer.type() != Packet::kExtendedReply) return;
  answer.u64();  // the limit of a packet
  const auto limit = [&](std::uint32_t known) {
    const std::uint64_t most = std::min<std::uint64_t>(answer.u64(), kMaxAtOnce);
    return std::max(static_cast<std::uint32_t>(most), known);
  };
  most_read_ = limit(most_read_);
  most_write_ = limit(most_write_);
}

void Session::lose(const std::string& why) {
  std::string text = where_ + ": " + why;
  const std::string messages = printable_line(stream_.messages());
  if (!messages.empty()) text += ": " + messages;
  if (!is_started_ && is_final(messages)) {
    throw StorageError(
        text +
            "; make `ssh` to this host work without questions (keys, known_hosts), then try "
            "again",
        0);
  }
  throw ConnectionLost(text);
}

Session::Id Session::add(const Request& request, std::size_t most) {
  const Id id = next_id_++;
  asked_[id] = {.most = most};
  stream_.put(request.packet(id));
  return id;
}

Session::Id Session::send(const Request& request, std::size_t most) {
  const Id id = add(request, most);
  while (stream_.is_full())
    pump();
  return id;
}

Answer Session::wait(Id id, std::chrono::milliseconds patience) {
  const auto asked = asked_.find(id);
  if (asked == asked_.end() || asked->second.is_forgotten) {
    throw StorageError(where_ + ": a request from before an error is not answered any more", 0);
  }
  while (!asked->second.answer)
    pump(patience);
  return std::move(*asked_.extract(asked).mapped().answer);
}

Session::Id Session::send_and_forget(const Request& request) {
  const Id id = add(request, kShortAnswer);
  forget(id);
  return id;
}

void Session::wait_for_last(Id last) {
  const auto end = std::chrono::steady_clock::now() + kCleanupTime;
  while (asked_.contains(last)) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0 || !moved_within(left)) return;
  }
}

void Session::forget(Id id) {
  const auto asked = asked_.find(id);
  if (asked == asked_.end()) return;
  asked->second.is_forgotten = true;
  if (asked->second.answer) asked_.erase(asked);
}

void Session::forget_from(Id first) {
  for (auto at = asked_.lower_bound(first); at != asked_.end();) {
    const Id id = at->first;
    ++at;
    forget(id);
  }
}

void Session::pump(std::chrono::milliseconds patience) {
  const auto most = std::max(stall_, patience);
  if (moved_within(most)) return;
  lose("the server has said nothing for " + std::to_string(most.count() / 1000) + " s");
}

bool Session::moved_within(std::chrono::milliseconds most) {
  take_answers();
  const auto moved = stream_.pump(most);
  if (moved == ProgramDialog::PumpResult::kNothing) return false;
  if (moved == ProgramDialog::PumpResult::kWoken) check_cancelled_here();
  if (moved == ProgramDialog::PumpResult::kEnded) {
    lose(is_started_ ? "the connection broke off" : "no connection");
  }
  take_answers();
  return true;
}

// How long a packet with that id may be.
std::size_t Session::most_of(std::optional<Id> id) const {
  if (!is_started_ || !id) return kMaxAnswer;
  const auto asked = asked_.find(*id);
  return asked == asked_.end() ? kMaxAnswer : asked->second.most;
}

void Session::take_answers() {
  while (const auto next = stream_.next()) {
    if (next->size < 5 || next->size > most_of(next->id)) {
      lose("the server sent a packet of " + std::to_string(next->size) +
           " bytes, which is no SFTP packet");
    }
    if (!next->is_whole) return;
    take(stream_.take());
  }
}

void Session::take(std::string packet) {
  Answer answer(std::move(packet));
  if (!is_started_) {
    if (answer.type() != Packet::kVersion) lose("the server's first packet is not SFTP's");
    if (const std::uint32_t version = answer.u32(); version != kVersion) {
      lose("the server speaks version " + std::to_string(version) + " of SFTP, not version 3");
    }
    while (!answer.at_end()) {
      const std::string name(answer.text());
      extensions_[name] = answer.text();
    }
    is_started_ = true;
    return;
  }
  const auto asked = asked_.find(answer.id());
  if (asked == asked_.end() || asked->second.answer) lose("the server answered no known request");
  if (asked->second.is_forgotten) {
    asked_.erase(asked);
    if (answer.type() == Packet::kHandle) {
      send_and_forget(Request(Packet::kClose).text(answer.text()));
    }
  } else {
    asked->second.answer = std::move(answer);
  }
}

}  // namespace cairn::sftp
