// Operations on files of a server. Each takes one request, or a few. Paths are the server's. All
// throw ConnectionLost, and StorageError with the server's message.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/sftp/session.h"

namespace cairn::sftp {

// nullopt if there is no such file. With `follow` a link stands for its target.
std::optional<Attributes> stat(Session& session, const std::string& path, bool follow = true);
// Like stat(), for an open file.
Attributes stat_open(Session& session, const std::string& handle, const std::string& path);

// Throws unless the answer is a status kOk. `doing` is text like "cannot remove a/b".
void check_done(Answer answer, const std::string& doing);
// The status in an answer. Throws for an answer of another type; `doing` begins the message.
Status status_of(Answer& answer, const std::string& doing);
[[noreturn]] void refuse(Status status, std::string_view message, const std::string& doing);

// Returns a handle; nullopt if there is no such file.
std::optional<std::string> open_to_read(Session& session, const std::string& path);
// Returns the handle of a new file.
std::string create(Session& session, const std::string& path);
void close(Session& session, const std::string& handle, const std::string& path);
// Makes written bytes durable, if the server supports it.
void sync(Session& session, const std::string& handle, const std::string& path);

struct Entry {
  std::string name;
  Attributes attributes;  // of the entry itself, not of a link's target
};
// nullopt if there is no such folder, or the path is no folder.
std::optional<std::vector<Entry>> list(Session& session, const std::string& folder);

// The text of a symbolic link.
std::string read_link(Session& session, const std::string& path);
// Makes the folder and all its parents.
void make_folders(Session& session, const std::string& path);
// False if there was no such file.
bool remove(Session& session, const std::string& path);
// Removes a folder and everything in it.
void remove_tree(Session& session, const std::string& folder);

// Renames a file, and replaces at once what has the name. Throws UnsupportedError if the server
// cannot.
void replace(Session& session, const std::string& from, const std::string& to);
// Renames a file to a free name. Returns false if the name is taken; `from` is then unchanged.
bool publish_new(Session& session, const std::string& from, const std::string& to);

}  // namespace cairn::sftp
