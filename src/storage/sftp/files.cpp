#include "storage/sftp/files.h"

#include <algorithm>

#include "core/text/printable.h"
#include "io/file.h"

namespace cairn::sftp {
namespace {

constexpr const char* kPosixRename = "posix-rename@openssh.com";
constexpr const char* kHardlink = "hardlink@openssh.com";
constexpr const char* kFsync = "fsync@openssh.com";
constexpr std::chrono::minutes kPatienceOfDisks{10};  // gigabytes may wait in the server's memory
constexpr std::uint32_t kNoAttributes = 0;
constexpr std::size_t kRemovedAtOnce = 64;
constexpr std::uint64_t kMaxEntries = 10'000'000;  // of a folder
constexpr int kDeepestTree = 100;

bool is_missing(Answer& answer, const std::string& doing) {
  if (answer.type() != Packet::kStatus) return false;
  const Status status = status_of(answer, doing);
  if (status == Status::kNoSuchFile) return true;
  refuse(status, answer.at_end() ? "" : answer.text(), doing);
}

[[noreturn]] void lose_track(const std::string& doing) {
  throw ConnectionLost(doing + ": the server's answer has another type than its request needs");
}

std::string handle_in(Answer& answer, const std::string& doing) {
  if (answer.type() != Packet::kHandle) lose_track(doing);
  return std::string(answer.text());
}

Request rename_request(Packet kind, const char* extension, const std::string& from,
                       const std::string& to) {
  Request request(kind);
  if (extension != nullptr) request.text(extension);
  return request.text(from).text(to);
}

// Whether `name` is a mere name: a path could lead out of its folder.
bool is_entry(std::string_view name) {
  return !name.empty() && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

// Reads the answer to a removal. Returns false if there was no such file.
bool was_removed(Answer answer, const std::string& path) {
  const std::string doing = "cannot remove " + path;
  const Status status = status_of(answer, doing);
  if (status == Status::kNoSuchFile) return false;
  if (status != Status::kOk) refuse(status, answer.at_end() ? "" : answer.text(), doing);
  return true;
}

void remove_tree_at(Session& session, const std::string& folder, int depth) {
  if (depth > kDeepestTree) throw StorageError("cannot remove " + folder + ": too deep", 0);
  const auto entries = list(session, folder);
  if (!entries) return;
  std::vector<Session::Id> asked;
  const auto wait_for_all = [&] {
    for (const Session::Id id : asked) {
      was_removed(session.wait(id), folder);
    }
    asked.clear();
  };
  for (const Entry& entry : *entries) {
    const std::string path = join_path(folder, entry.name);
    if (entry.attributes.is_folder()) {
      remove_tree_at(session, path, depth + 1);
      continue;
    }
    asked.push_back(session.send(Request(Packet::kRemove).text(path)));
    if (asked.size() == kRemovedAtOnce) wait_for_all();
  }
  wait_for_all();
  check_done(session.ask(Request(Packet::kRmdir).text(folder)), "cannot remove " + folder);
}

// All entries of the open folder. The caller closes the handle.
std::vector<Entry> entries_of(Session& session, const std::string& handle,
                              const std::string& doing) {
  std::vector<Entry> entries;
  std::uint64_t seen = 0;
  for (;;) {
    Answer answer = session.ask(Request(Packet::kReaddir).text(handle), Session::kLongAnswer);
    if (answer.type() == Packet::kStatus) {
      const Status status = status_of(answer, doing);
      if (status == Status::kEof) break;
      refuse(status, answer.at_end() ? "" : answer.text(), doing);
    }
    if (answer.type() != Packet::kName) lose_track(doing);
    const std::uint32_t count = answer.u32();
    seen += count;
    if (count == 0 || seen > kMaxEntries) lose_track(doing);  // the list would never end
    for (std::uint32_t i = 0; i < count; ++i) {
      Entry entry{.name = std::string(answer.text()), .attributes = {}};
      answer.text();  // a line like that of `ls -l`
      entry.attributes = answer.attributes();
      if (!is_entry(entry.name)) lose_track(doing);
      if (!has_dot_component(entry.name)) entries.push_back(std::move(entry));
    }
  }
  return entries;
}

}  // namespace

Status status_of(Answer& answer, const std::string& doing) {
  if (answer.type() != Packet::kStatus) lose_track(doing);
  return static_cast<Status>(answer.u32());
}

void refuse(Status status, std::string_view message, const std::string& doing) {
  std::string text = doing + ": the server says " +
                     (message.empty() ? "error " + std::to_string(static_cast<unsigned>(status))
                                      : printable_line(std::string(message.substr(0, 300))));
  if (status == Status::kPermissionDenied) text += "; check who may write there";
  throw StorageError(text, static_cast<int>(status));
}

void check_done(Answer answer, const std::string& doing) {
  const Status status = status_of(answer, doing);
  if (status != Status::kOk) refuse(status, answer.at_end() ? "" : answer.text(), doing);
}

std::optional<Attributes> stat(Session& session, const std::string& path, bool follow) {
  const std::string doing = "cannot look at " + path;
  Answer answer = session.ask(Request(follow ? Packet::kStat : Packet::kLstat).text(path));
  if (is_missing(answer, doing)) return std::nullopt;
  if (answer.type() != Packet::kAttrs) lose_track(doing);
  return answer.attributes();
}

Attributes stat_open(Session& session, const std::string& handle, const std::string& path) {
  Answer answer = session.ask(Request(Packet::kFstat).text(handle));
  if (answer.type() == Packet::kStatus) check_done(std::move(answer), "cannot look at " + path);
  if (answer.type() != Packet::kAttrs) lose_track("cannot look at " + path);
  return answer.attributes();
}

std::optional<std::string> open_to_read(Session& session, const std::string& path) {
  const std::string doing = "cannot open " + path;
  Answer answer = session.ask(Request(Packet::kOpen).text(path).u32(kOpenRead).u32(kNoAttributes));
  if (is_missing(answer, doing)) return std::nullopt;
  return handle_in(answer, doing);
}

std::string create(Session& session, const std::string& path) {
  const std::string doing = "cannot create " + path;
  Answer answer = session.ask(Request(Packet::kOpen)
                                  .text(path)
                                  .u32(kOpenWrite | kOpenCreate | kOpenExclusive)
                                  .u32(kNoAttributes));
  if (answer.type() == Packet::kStatus) check_done(std::move(answer), doing);
  return handle_in(answer, doing);
}

void close(Session& session, const std::string& handle, const std::string& path) {
  check_done(session.ask(Request(Packet::kClose).text(handle)), "cannot close " + path);
}

void sync(Session& session, const std::string& handle, const std::string& path) {
  if (!session.has(kFsync)) return;
  const Session::Id asked = session.send(Request(Packet::kExtended).text(kFsync).text(handle));
  check_done(session.wait(asked, kPatienceOfDisks), "cannot make durable " + path);
}

std::optional<std::vector<Entry>> list(Session& session, const std::string& folder) {
  const std::string doing = "cannot list " + folder;
  Answer opened = session.ask(Request(Packet::kOpendir).text(folder));
  if (is_missing(opened, doing)) return std::nullopt;
  const std::string handle = handle_in(opened, doing);
  std::vector<Entry> entries;
  try {
    entries = entries_of(session, handle, doing);
  } catch (...) {
    session.send_and_forget(Request(Packet::kClose).text(handle));
    throw;
  }
  close(session, handle, folder);
  return entries;
}

std::string read_link(Session& session, const std::string& path) {
  const std::string doing = "cannot read the link " + path;
  Answer answer = session.ask(Request(Packet::kReadlink).text(path));
  if (answer.type() == Packet::kStatus) check_done(std::move(answer), doing);
  if (answer.type() != Packet::kName || answer.u32() != 1) lose_track(doing);
  return std::string(answer.text());
}

void make_folders(Session& session, const std::string& path) {
  const auto there = stat(session, path);
  if (there && there->is_folder()) return;
  const std::string above = parent_path(path);
  if (above != path) make_folders(session, above);
  Answer answer = session.ask(Request(Packet::kMkdir).text(path).u32(kNoAttributes));
  const Status status = status_of(answer, "cannot make the folder " + path);
  if (status == Status::kOk) return;
  const auto now = stat(session, path);  // Another client may have made the folder.
  if (now && now->is_folder()) return;
  refuse(status, answer.at_end() ? "" : answer.text(), "cannot make the folder " + path);
}

bool remove(Session& session, const std::string& path) {
  return was_removed(session.ask(Request(Packet::kRemove).text(path)), path);
}

void remove_tree(Session& session, const std::string& folder) {
  remove_tree_at(session, folder, 0);
}

void replace(Session& session, const std::string& from, const std::string& to) {
  if (!session.has(kPosixRename)) {
    throw UnsupportedError("cannot replace " + to + ": the server has no " + kPosixRename +
                           ", so it cannot do that at once; write to another name");
  }
  check_done(session.ask(rename_request(Packet::kExtended, kPosixRename, from, to)),
             "cannot give " + from + " the name " + to);
}

// Gives the file the second name `to`, which the server refuses if it exists, and then removes the
// name `from`. Without hard links uses rename of version 3, which must refuse an existing name,
// too.
bool publish_new(Session& session, const std::string& from, const std::string& to) {
  const bool links = session.has(kHardlink);
  Answer answer = session.ask(links ? rename_request(Packet::kExtended, kHardlink, from, to)
                                    : rename_request(Packet::kRename, nullptr, from, to));
  const std::string doing = "cannot give " + from + " the name " + to;
  const Status status = status_of(answer, doing);
  if (status == Status::kOk) {
    if (links) remove(session, from);
    return true;
  }
  if (stat(session, to, /*follow=*/false)) return false;
  refuse(status, answer.at_end() ? "" : answer.text(), doing);
}

}  // namespace cairn::sftp
