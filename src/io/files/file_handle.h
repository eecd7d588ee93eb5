// Any number of files that are open, with few descriptors.
//
//  1. Opening fixes what the file is: its device and inode, its size and the time of its last
//     change.
//  2. A quarter of the descriptors that this process may have, and 1,024 at most, are kept open for
//     all handles together; the one that was used longest ago is closed for a new one. A folder of
//     ten thousand files is read under any limit.
//  3. Whoever uses a handle whose descriptor was closed opens its path again, and gets what was
//     opened before or an UnreadableError: never another file that has the name by now.
//
// As long as a descriptor stays open it is the file itself, whatever becomes of its name.
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
  // `fd` is a regular file, open for reading, that `path` leads to. StorageError.
  FileHandle(FileDescriptor fd, const std::string& path);
  ~FileHandle();
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return opened_.size; }

  // The descriptor, which stays open as long as the result lives. UnreadableError, StorageError.
  std::shared_ptr<const FileDescriptor> get() const;
  // UnreadableError when somebody wrote to the file, or cut it off, since it was opened.
  void check_unchanged(const FileDescriptor& fd) const;

 private:
  friend class FileHandles;

  struct State {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t size = 0;
    std::int64_t modified = 0;  // nanoseconds
    std::int64_t changed = 0;   // its inode: also by a new name, or other permissions
  };
  State state_of(const FileDescriptor& fd) const;
  std::shared_ptr<const FileDescriptor> open_again() const;

  std::string path_;
  std::string absolute_path_;  // the process may go to another folder
  State opened_;
  // Of FileHandles, under its lock.
  mutable std::shared_ptr<const FileDescriptor> fd_;
  mutable std::list<const FileHandle*>::iterator place_;
};

}  // namespace cairn
