// The lock of a run in its save folder. It keeps two starts of one run from writing over each
// other.
//
// It is a file with an advisory lock, `.cairn-lock-<hash of the run's name>`, hidden from every
// list of checkpoints (io/files/lock_file.h). Its text, one JSON object, says which process holds
// it. The kernel releases the lock when that process ends. On file systems of several machines the
// server does so some time after a machine died. If it does not, `cairn lock FOLDER --release`
// does. Reading never takes the lock.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/file.h"

namespace cairn {

struct RunLockHolder {
  std::string run_name = {};
  std::int64_t pid = 0;  // 0: the file does not say who holds it
  std::string host = {};
  std::string started = {};  // when the lock was taken: "2026-11-27T10:02:11Z"
  std::string job = {};      // the same for all processes of one start
};

struct RunLockRequest {
  std::string folder;  // must exist
  std::string run_name;
  // Processes of one start give the same text, and share the lock. random_digits() makes one.
  std::string job;
};

// Takes the lock, and holds it while the result lives. All callers in one process share it.
// BusyError if another process has it; StorageError. Null if the file system has no locks.
// Thread-safe.
std::shared_ptr<void> take_run_lock(FileSystem& files, const RunLockRequest& request);

struct RunLockFile {
  std::string path;
  RunLockHolder holder;
  // Whether the holder says that it is on this machine, and a process with its number lives here.
  bool is_alive_here = false;
};

// Whether a process of another job holds the lock now. Creates nothing.
bool is_run_locked(FileSystem& files, const RunLockRequest& request);

// Lists the locks in `folder` without taking one: those of living processes, and those that killed
// processes left.
std::vector<RunLockFile> list_run_locks(FileSystem& files, const std::string& folder);

// Removes the file, so that the next start has a lock of its own even if a dead machine holds this
// one. BusyError when a process of this machine has the lock: the file system is local, or a
// process of the holder's number lives here.
void release_run_lock(FileSystem& files, const RunLockFile& lock);

}  // namespace cairn
