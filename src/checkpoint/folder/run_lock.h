// The lock of a run in its save folder. It keeps two starts of one run from overwriting each
// other's checkpoints.
//
// The lock is a file with an advisory lock, `.cairn-lock-<hash of the run's name>`, hidden from
// every list of checkpoints (io/files/lock_file.h). The text of the file, one JSON object, says
// which process holds the lock. The kernel releases the lock when that process ends. On a shared
// file system the file server releases the lock some time after a machine died. If the server does
// not, a user can call `cairn lock FOLDER --release`. Reading never takes the lock.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/file.h"

namespace cairn {

struct RunLockHolder {
  std::string run_name = {};
  std::int64_t pid = 0;  // 0: the file does not name the holder
  std::string host = {};
  std::string started = {};  // when the lock was taken: "2026-11-27T10:02:11Z"
  std::string job = {};      // the same for all processes of one start
};

struct RunLockRequest {
  std::string folder;  // must exist
  std::string run_name;
  // All processes of one start give the same text, and share the lock. random_digits() makes such a
  // text.
  std::string job;
};

// Takes the lock, and holds it as long as the result lives. All callers in one process share the
// lock. Returns null if the file system has no locks. Throws BusyError if a process of another
// start has the lock, and StorageError. Thread-safe.
std::shared_ptr<void> take_run_lock(FileSystem& files, const RunLockRequest& request);

struct RunLockFile {
  std::string path;
  RunLockHolder holder;
  // Whether the holder claims to be on this machine, and a process with its number is alive here.
  bool is_alive_here = false;
};

// Whether a process of another job holds the lock now. Creates nothing.
bool is_run_locked(FileSystem& files, const RunLockRequest& request);

// Lists the locks in `folder` without taking one. The list includes locks of living processes and
// locks that killed processes left.
std::vector<RunLockFile> list_run_locks(FileSystem& files, const std::string& folder);

// Removes the lock file, so that the next start gets a new lock even if a dead machine holds this
// lock. Throws BusyError if a process of this machine has the lock: the lock is held, and either
// the file system is local, or a process with the holder's number is alive here.
void release_run_lock(FileSystem& files, const RunLockFile& lock);

}  // namespace cairn
