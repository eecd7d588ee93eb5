// Any number of open files with few descriptors.
//
//  1. Opening fixes what the file is: its device and inode, its size and the time of its last
//     change.
//  2. At most a quarter of the descriptors that this process may have, and at most 1,024, stay open
//     for all handles together. For a new descriptor, the least recently used one is closed. So a
//     folder of ten thousand files can be read under any limit.
//  3. If a handle's descriptor was closed, its next use opens the path again. The user gets the
//     same file as before or an UnreadableError: never another file that has the name by now.
//
// While a descriptor stays open it refers to the file itself, whatever happens to its name.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "io/file_descriptor.h"

namespace cairn {

// Thread-safe.
class FileHandle {
 public:
  // `fd` is a regular file, open for reading, at `path`. Throws StorageError.
  FileHandle(FileDescriptor fd, const std::string& path);
  ~FileHandle();
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return opened_.size; }

  // The descriptor, which stays open while the result lives. Throws UnreadableError, StorageError.
  std::shared_ptr<const FileDescriptor> get() const;
  // Throws UnreadableError if the file was written to, or truncated, since it was opened.
  void check_unchanged(const FileDescriptor& fd) const;

 private:
  friend class FileHandles;

  struct State {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t size = 0;
    std::int64_t modified = 0;  // nanoseconds
    std::int64_t changed = 0;   // of the inode: also by a new name or other permissions
  };
  State state_of(const FileDescriptor& fd) const;
  std::shared_ptr<const FileDescriptor> open_again() const;

  std::string path_;
  std::string absolute_path_;  // the process may change its working folder
  State opened_;
  // Used by FileHandles, under its lock.
  mutable std::shared_ptr<const FileDescriptor> fd_;
  mutable std::list<const FileHandle*>::iterator place_;
};

}  // namespace cairn
