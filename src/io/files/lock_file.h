// A file whose advisory lock (flock) says that a process is at work, with a text that says which.
//
//  1. Open the file, or create it, and ask for the lock without waiting. If another process has the
//     lock, read the file's text and change nothing.
//  2. The lock is on the file, not on its name. If the name is gone or stands for another file by
//     now, the previous process has just released its lock. In that case, start again.
//  3. Write the text. This takes over a file that a killed process left.
//  4. To release: remove the name while the lock is held, then close.
//
// The kernel releases the lock of a process that ends, however it ends; a child that it forked has
// no share in the lock (FileDescriptor::open_for_lock()).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/file.h"

namespace cairn {

// Names of lock files begin with this. No list of a store shows them.
inline constexpr std::string_view kLockPrefix = ".cairn-lock-";
inline bool is_lock_name(std::string_view name) { return name.starts_with(kLockPrefix); }

// FileSystem::lock_file() of the real file system.
FileLock lock_posix_file(const FilePath& path, const std::string& text);

enum class LockState : std::uint8_t {
  kFree,     // no process holds the lock
  kHeld,     // a process holds it, perhaps on another machine
  kUnknown,  // there is no file of that name, it may not be opened, or the file system has no locks
};
// Asks the kernel, and changes nothing. If the lock is free, this process shares it for an instant,
// in which no other process can take it: do not ask again about a holder that has ended.
LockState state_of_lock(const FilePath& path);

}  // namespace cairn
