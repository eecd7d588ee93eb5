// The one seam through which cairn touches a file system. Everything that can fail, crash or lie
// about durability goes through FileSystem, so that tests can make these things happen.
//
// Paths are UTF-8 strings as the user gave them. All failures are StorageError with errno in
// status(), except where a function says otherwise. ENOSPC, EDQUOT and EFBIG are retryable. open(),
// stat(), list() and read_link() throw UnreadableError if the disk or the server does not deliver
// what is there. A short write or an interrupted call is continued, not reported.
//
// Calls that only look take a path, and follow links as every program does. Calls that create,
// rename, remove, lock or sync take a FilePath or a FolderPath, and follow no link below its root.
// If they are given a path, its last folder is the root. The errno is ELOOP if a link below the
// root is on the way.
//
// A process that exceeds its file-size limit is killed by SIGXFSZ unless it ignores that signal. To
// make the limit an error like any other, code that writes a file first sets SIGXFSZ to "ignore"
// (file_size_limit.h). It does so only if the disposition is the default: a handler of the
// program's own is left alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/byte_source.h"

#include "io/file_path.h"

namespace cairn {

struct FileInfo {
  enum class Type : std::uint8_t { kRegular, kFolder, kLink, kOther };
  Type type = Type::kRegular;
  std::uint64_t size = 0;
  std::chrono::system_clock::time_point modified = {};
  std::uint64_t inode = 0;                             // identifies the file, whatever its name
  std::uint64_t links = 1;                             // number of names
  std::chrono::system_clock::time_point changed = {};  // also by another name or other permissions
  bool is_private = false;                             // only its owner may access it

  // If two infos of one file are equal, nothing was done to the file in between.
  bool operator==(const FileInfo&) const = default;
};

// A file being written, front to back. The destructor only closes it. Not thread-safe. Once a call
// has failed, the file is dead: write() and sync() throw from then on.
class WritableFile : public ByteSink {
 public:
  // As write(), for bytes that do not change while their owner lives. This may keep them, and write
  // them from where they lie after it has returned.
  virtual void write_shared(const SharedBytes& bytes) { write(bytes.view); }

  // Makes everything written so far survive a power cut (fdatasync). If the file is overwritten,
  // cuts off the old content after the new bytes. A failure is final: the kernel may have dropped
  // the dirty pages and would report success next time, so sync is not tried again.
  virtual void sync() = 0;

  // Closes, and reports the errors that the destructor would swallow. Idempotent.
  virtual void close() = 0;
};

struct CreateOptions {
  std::uint64_t expected_bytes = 0;  // a hint: large files are written past the page cache
  bool lock = false;                 // hold an advisory lock while open: see remove_unlocked()
  bool is_private = false;           // only its owner may access it
};

// The answer of FileSystem::lock_file().
struct FileLock {
  std::shared_ptr<void> held = nullptr;  // the lock, while this lives; null: not acquired
  bool has_locks = true;                 // false: this file system has none
  std::string holder = {};               // the text of the process that has the lock
  // The process that has the lock lives on this machine, whatever its text says: no other machine
  // can reach the file.
  bool is_held_here = false;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Creates a file that must not exist (O_EXCL|O_NOFOLLOW; EEXIST otherwise).
  virtual std::unique_ptr<WritableFile> create(const FilePath& path,
                                               const CreateOptions& options) = 0;
  // Opens a file, locked, to overwrite it in the space that it has on the disk. New bytes replace
  // the old content, until sync() cuts off the rest. Returns nullptr, with nothing done, unless it
  // is certain that no process can miss the old content. Certain means: the file has only this
  // name, no other descriptor in any process has it open, mapped or locked, and the file system
  // knows of all possible openers.
  virtual std::unique_ptr<WritableFile> overwrite(const FilePath& path,
                                                  std::uint64_t expected_bytes) = 0;
  // Opens a file for reading. Throws NotFoundError if there is none, UsageError if it is a folder
  // or another special thing.
  virtual std::shared_ptr<const ByteSource> open(const std::string& path) = 0;

  // Atomically gives `from` the name `to`, replacing a file or link of that name. If `overwrite` is
  // false and the name is taken, throws AlreadyExistsError and changes nothing. A folder may be
  // renamed, too, but replaces nothing.
  virtual void rename(const FilePath& from, const FilePath& to, bool overwrite = true) = 0;
  // Atomically exchanges the names of two files or folders. Both must exist, in one folder. Returns
  // false, with nothing done, if the file system cannot do this.
  virtual bool exchange(const FilePath& one, const FilePath& other) = 0;
  // Creates a symbolic link whose text is `target`. The errno is EEXIST if the name is taken.
  virtual void make_link(const std::string& target, const FilePath& path) = 0;
  virtual std::optional<std::string> read_link(const std::string& path) = 0;  // nullopt: not a link
  // Removes a file or link. Returns false if there was none.
  virtual bool remove(const FilePath& path) = 0;
  // Holds an advisory lock on a folder while the result lives: see remove_unlocked(). Returns
  // nullptr if there are no locks on folders, or another process holds this one.
  virtual std::shared_ptr<void> lock_folder(const FolderPath& path) = 0;
  // Removes a file, a link, or a folder with the files in it, unless a living process holds its
  // lock (CreateOptions::lock, lock_folder()). There is no moment, between the check and the
  // removal, in which a process could take the lock. Returns false if `path` was left, or did not
  // exist. Where there are no locks, anything with a temporary name (atomic_file.h) is left, and
  // anything else is removed.
  virtual bool remove_unlocked(const FilePath& path) = 0;
  // Removes an empty folder. Returns false if there was none.
  virtual bool remove_folder(const FilePath& path) = 0;
  // Creates a folder and its missing parents, each durable when this returns. Throws UsageError if
  // something on the way is not a folder, or is a link below the root.
  virtual void make_folders(const FolderPath& path) = 0;
  // Makes renames, creations and removals inside the folder survive a power cut.
  virtual void sync_folder(const FolderPath& path) = 0;

  // Describes `path`; follows a link if `follow` is true. Returns nullopt if nothing has this name.
  // A followed link counts as nothing if it leads nowhere, to itself, or to an impossible name.
  virtual std::optional<FileInfo> stat(const std::string& path, bool follow = true) = 0;
  // Names directly inside a folder, sorted, without "." and "..". Throws NotFoundError if it does
  // not exist, UsageError if it is not a folder.
  virtual std::vector<std::string> list(const std::string& folder) = 0;

  // Takes the advisory lock of the file `path`, in a folder that exists, and writes `text` into the
  // file for others to read (lock_file.h). Does not wait. The file is removed when the result is
  // destroyed. Throws UsageError if something other than a file has the name. The default
  // implementation: there are no locks.
  virtual FileLock lock_file(const FilePath& path, const std::string& text);
  // The free space for this user in the file system of `folder`. Returns nullopt if the free space
  // is not known, or files may take less space than they have bytes (btrfs, ZFS). The default
  // implementation: not known.
  virtual std::optional<std::uint64_t> free_bytes(const std::string& folder);
};

// The real file system. Stateless and thread-safe.
FileSystem& posix_file_system();

// Removes a folder and everything in it: first the files, then the folders from the inside out.
// Links are removed, never followed. Throws StorageError.
void remove_tree(FileSystem& files, const FilePath& path);

// --- Paths --------------------------------------------------------------------------------------
// cairn's own functions: the libtorch of PyTorch's wheels exports symbols of std::filesystem that
// are not those of the program's libstdc++, and calling them crashes (pytorch/pytorch#133437).

std::string join_path(const std::string& folder, const std::string& name);
std::string parent_path(const std::string& path);  // "." for a bare name
std::string base_name(const std::string& path);
// Whether a component of the path is "." or "..": such a name may lead out of its folder.
bool has_dot_component(const std::string& path);
// The path with the current folder before it. Unchanged if the path is empty, or if the current
// folder no longer exists.
std::string absolute_path(const std::string& path);
// `path` as seen from `folder`, by the text of both alone: "../a/f" for "x/a/f" from "x/b".
std::string relative_path(const std::string& path, const std::string& folder);
// The path without ".", "x/.." and double slashes, by its text alone. A URI is normalised only
// after its root: "s3://bucket/a//b" becomes "s3://bucket/a/b".
std::string normal_path(const std::string& path);

}  // namespace cairn
