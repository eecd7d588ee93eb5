// A folder that several processes write together, in one attempt that succeeds or leaves nothing.
//
// clang-format off
//  1. An attempt has a unique id of 16 hexadecimal digits, so files of two attempts never share a
//     name. One process, the leader, makes the folder; the others join it.
//  2. In a file system the folder is `.cairn-tmp-<name>-<id>` beside its final place, locked by the
//     leader. The files in the folder have their final names. write() syncs a file's bytes, and
//     sync() its name. Every process syncs its own files, since it may be on another machine than
//     the leader. commit() works as in io/durable/atomic_folder.h: sync, rename, sync the parent.
//     If the leader dies, remove_leftovers() removes the files of the attempt.
//  3. In a store whose objects appear one by one, each file is written under a name with the id,
//     `__3_0-<id>.distcp`, on condition that the name is free. commit() works as in
//     storage/object_folder.h: it writes the remaining files, and last the file that makes the
//     folder a checkpoint (`.metadata`). If an attempt left files, the next commit() of a folder of
//     that name removes them.
//  4. Only commit() publishes. abandon() and the leader's destructor remove as much of the attempt
//     as they can. To abandon an attempt is safe only if the leader will not commit.
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
  std::string path = {};   // the folder's path
  std::string id = {};     // the attempt's id: random_digits()
  bool overwrite = false;  // for the leader: whether it may replace a folder of that name
  RetryPolicy retry = {};  // for a store that may_be_far()
};

struct FileOfAttempt {
  std::string name = {};             // without slashes
  std::uint64_t expected_bytes = 0;  // a hint
  // Writes the whole file, with the same bytes each time that it is called. Must not commit.
  std::function<void(ObjectWrite&)> fill = nullptr;
};

// Not thread-safe. The store must outlive it.
class AttemptFolder {
 public:
  virtual ~AttemptFolder() = default;

  // The file's name in the store, which `.metadata` contains.
  virtual std::string stored_name(const std::string& name) const = 0;
  // Writes a file; its bytes are durable when this returns. Throws AlreadyExistsError if the file
  // exists, and StorageError.
  virtual void write(const FileOfAttempt& file) = 0;
  // Makes durable the names of all files that this process wrote.
  virtual void sync() = 0;
  // The size of a file, by its stored name, as the store reports it. nullopt if there is no such
  // file.
  virtual std::optional<std::uint64_t> size_of(const std::string& stored) const = 0;
  // False if the leader gave up and removed the folder.
  virtual bool is_there() const = 0;
  // For the leader: whether a living process is about to publish another attempt at this folder,
  // for instance a process of a job that was given up. If two leaders ask while both could still
  // publish, at least one of them gets true. Always false in a store of objects: such a store
  // refuses the second attempt that is published.
  virtual bool has_rival() const = 0;
  // For the leader: fills `files`, one after another, and publishes the folder with these files.
  // Call commit() once. A store of objects keeps the bytes of `files` in memory until all are
  // filled.
  virtual void commit(const std::vector<FileOfAttempt>& files) = 0;
  // Removes what this process wrote. The leader removes what all processes wrote. Never throws an
  // Error: leftovers do no harm.
  virtual void abandon() = 0;
  // The folder's place, for messages.
  virtual std::string where() const = 0;
};

// For the leader. Throws AlreadyExistsError if `path` is already a checkpoint and `overwrite` is
// false, UsageError if it is something else, UnsupportedError for a store with
// features().flat_names, and StorageError.
std::unique_ptr<AttemptFolder> create_attempt_folder(ObjectStore& store,
                                                     const AttemptFolderOptions& options);

// For the other processes. Returns null if the attempt is not found here: this process sees another
// file system than the leader.
std::unique_ptr<AttemptFolder> join_attempt_folder(ObjectStore& store,
                                                   const AttemptFolderOptions& options);

}  // namespace cairn
