// What is done to files of a server: one request, or a few, each. Paths are the server's. All of
// them throw ConnectionLost, and StorageError with what the server says.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/sftp/session.h"

namespace cairn::sftp {

// nullopt when there is nothing; `follow`: what a link leads to is meant.
std::optional<Attributes> stat(Session& session, const std::string& path, bool follow = true);
// The same of an open file.
Attributes stat_open(Session& session, const std::string& handle, const std::string& path);

// Throws unless the answer is a status kOk. `doing` as "cannot remove a/b".
void check_done(Answer answer, const std::string& doing);
// The status of an answer that is one; `doing` goes into the error of any other.
Status status_of(Answer& answer, const std::string& doing);
[[noreturn]] void refuse(Status status, std::string_view message, const std::string& doing);

// A handle; nullopt when there is no such file.
std::optional<std::string> open_to_read(Session& session, const std::string& path);
// Of a new file.
std::string create(Session& session, const std::string& path);
void close(Session& session, const std::string& handle, const std::string& path);
// Makes what was written durable, where the server offers it.
void sync(Session& session, const std::string& handle, const std::string& path);

struct Entry {
  std::string name;
  Attributes attributes;  // of itself, and not of what it leads to
};
// nullopt when there is no such folder, or it is none.
std::optional<std::vector<Entry>> list(Session& session, const std::string& folder);

// The text of a symbolic link.
std::string read_link(Session& session, const std::string& path);
// With all above it.
void make_folders(Session& session, const std::string& path);
// False when there is none.
bool remove(Session& session, const std::string& path);
// All of a folder.
void remove_tree(Session& session, const std::string& folder);

// Gives a file another name, in place of what has it, at once. UnsupportedError where the server
// cannot.
void replace(Session& session, const std::string& from, const std::string& to);
// Gives a file another name, which nothing may have: false when something has it, and then `from`
// is still there.
bool publish_new(Session& session, const std::string& from, const std::string& to);

}  // namespace cairn::sftp
