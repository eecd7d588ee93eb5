// A folder that several processes write together, in one attempt that succeeds or leaves nothing.
//
// clang-format off
//  1. An attempt has an id, 16 hexadecimal digits that nobody else has: what belongs to different
//     attempts never has one name. One process leads: it makes the folder; others join it.
//  2. In a file system the folder is `.cairn-tmp-<name>-<id>` beside its place, locked by the
//     leader, and files in it have their names. Each is synced when write() returns, and its name
//     by sync(): by every process, which may be on another machine than the leader. commit() is
//     that of io/durable/atomic_folder.h: sync, rename, sync the parent. What a dead leader leaves
//     is what remove_leftovers() takes.
//  3. In a store whose objects appear one by one each is written under its name with the id in it,
//     `__3_0-<id>.distcp`, under the condition that there is none. commit() writes the hidden ones,
//     and last what the folder is known by (`.metadata`), as storage/object_folder.h does it. What
//     an attempt leaves there goes with the next commit() of a folder of that name.
//  4. Nothing is published but by commit(). abandon() and the leader's destructor remove what can
//     be removed of the attempt; that is safe only when the leader will not commit.
// clang-format on
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/storage/object_store.h"

#include "io/threads/retry.h"

namespace cairn {

struct AttemptFolderOptions {
  std::string path = {};   // of the folder
  std::string id = {};     // of the attempt: random_digits()
  bool overwrite = false;  // of the leader: in place of a folder of that name
  RetryPolicy retry = {};  // of a store that may_be_far()
};

struct FileOfAttempt {
  std::string name = {};             // without slashes
  std::uint64_t expected_bytes = 0;  // a hint
  // Writes all of it, and the same bytes each time that it is called. Does not commit.
  std::function<void(ObjectWrite&)> fill = nullptr;
};

// One thread at a time. The store must outlive it.
class AttemptFolder {
 public:
  virtual ~AttemptFolder() = default;

  // What a file is called in the store: it stands in `.metadata`.
  virtual std::string stored_name(const std::string& name) const = 0;
  // Writes a file; what it holds is durable then. AlreadyExistsError for one that is there;
  // StorageError.
  virtual void write(const FileOfAttempt& file) = 0;
  // The names of all that this process wrote are durable then.
  virtual void sync() = 0;
  // Of a file, by its stored name, as the store says it; nullopt when it is not there, or no file.
  virtual std::optional<std::uint64_t> size_of(const std::string& stored) const = 0;
  // False when the leader has removed it: it gave up.
  virtual bool is_there() const = 0;
  // Of the leader: whether a living process is about to publish another attempt at this folder, one
  // of a job that was given up, say. Of two that ask while both can publish one is told. False in a
  // store of objects, where the second to publish is refused.
  virtual bool has_rival() const = 0;
  // Of the leader: publishes, with these files in it, which are filled one after the other. Once.
  // In a store of objects what they hold is kept in memory until all are filled.
  virtual void commit(const std::vector<FileOfAttempt>& files) = 0;
  // Removes what this process wrote, and the leader what anybody did. Never throws an Error: what
  // stays is in nobody's way.
  virtual void abandon() = 0;
  // Where it is, for messages.
  virtual std::string where() const = 0;
};

// Of the leader. AlreadyExistsError when something of that name is a checkpoint already, unless it
// may be replaced; UsageError when it is something else; UnsupportedError for a store with
// features().flat_names; StorageError.
std::unique_ptr<AttemptFolder> create_attempt_folder(ObjectStore& store,
                                                     const AttemptFolderOptions& options);

// Of the others. Null when there is no such attempt here: this process has another file system than
// the leader.
std::unique_ptr<AttemptFolder> join_attempt_folder(ObjectStore& store,
                                                   const AttemptFolderOptions& options);

}  // namespace cairn
