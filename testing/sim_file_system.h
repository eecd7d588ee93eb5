// A file system in memory that can lose power.
//
// It keeps two versions: what a running process sees, and what is certainly on the disk. Bytes are
// certain after WritableFile::sync(). Names are certain after sync_folder() of their folder. After
// a crash, after_power_loss() gives every disk that POSIX allows. A folder may have any subset of
// the changes since its last sync (a rename is one change). A file loses unsynced bytes in one of
// several ways: nothing; everything; the second half; the data, which becomes zeros; the first
// half, which becomes zeros or, in an overwritten file, old; every second block. Real file systems
// are kinder: a protocol that survives here survives there.
//
// Symbolic links are followed only as the last part of a path or of a root. "x/.." is resolved as
// text, and renames stay in one folder. A link below the root of a FilePath is an ELOOP.
// Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "io/file.h"

namespace cairn::testing {

// Thrown by every call from the crash on. It is not an Error, so that no code handles it by
// mistake.
struct SimulatedCrash {};

class SimFileSystem final : public FileSystem {
 public:
  SimFileSystem();  // Holds the root folder "/".

  std::unique_ptr<WritableFile> create(const FilePath& path, const CreateOptions& options) override;
  // Returns null while the file is locked or a source from open() is alive.
  std::unique_ptr<WritableFile> overwrite(const FilePath& path,
                                          std::uint64_t expected_bytes) override;
  std::shared_ptr<const ByteSource> open(const std::string& path) override;
  void rename(const FilePath& from, const FilePath& to, bool overwrite) override;
  bool exchange(const FilePath& one, const FilePath& other) override;
  std::shared_ptr<void> lock_folder(const FolderPath& path) override;
  void make_link(const std::string& target, const FilePath& path) override;
  std::optional<std::string> read_link(const std::string& path) override;
  bool remove(const FilePath& path) override;
  bool remove_unlocked(const FilePath& path) override;
  bool remove_folder(const FilePath& path) override;
  void make_folders(const FolderPath& path) override;
  void sync_folder(const FolderPath& path) override;
  std::optional<FileInfo> stat(const std::string& path, bool follow) override;
  std::vector<std::string> list(const std::string& folder) override;

  // From now on there are no symbolic links, as on FAT: make_link() fails with errno `error`. A
  // disk after a crash has no symbolic links either.
  void refuse_links(int error);

  // From now on exchange() returns false, as on NFS.
  void forget_exchange() { can_exchange_ = false; }

  // The number of operations so far. An operation is a call that changes or syncs something, a
  // write or sync of a file, or a step of make_folders().
  std::uint64_t operations() const;
  // The process dies at this operation, counted from 1. The operation is not done, except that a
  // write does half of its work. Every later call throws SimulatedCrash.
  void crash_at(std::uint64_t operation);
  bool crashed() const;

  // after_power_loss() gives the disks that a restarted machine may find, and after_kill() the disk
  // of a machine on which only the process died. Each disk is a separate file system on which
  // everything is certain.
  std::vector<std::unique_ptr<SimFileSystem>> after_power_loss() const;
  std::unique_ptr<SimFileSystem> after_kill() const;
  // One of the disks of after_power_loss(). Use it if there are too many to go through. `draw(n)`
  // returns a number below n. The same numbers give the same disk.
  std::unique_ptr<SimFileSystem> after_power_loss(
      const std::function<std::uint64_t(std::uint64_t)>& draw) const;

  // All names with the size of files and the target of links, for messages of failing tests.
  std::string describe() const;

 private:
  struct Inode {
    std::string bytes;    // As processes see them.
    std::string certain;  // On the disk.
    bool locked = false;
    std::int64_t number = 0;
    std::int64_t modified = 0;
    std::int64_t changed = 0;
    std::shared_ptr<int> opened = std::make_shared<int>();  // Shared by all readers.
  };
  struct Folder;
  struct Entry {  // Exactly one of the three is set.
    std::shared_ptr<Inode> file;
    std::shared_ptr<Folder> folder;
    std::string link;
  };
  // Names that change together. nullopt removes the name.
  using Change = std::vector<std::pair<std::string, std::optional<Entry>>>;
  struct Folder {
    std::map<std::string, Entry> entries;  // As processes see them.
    std::map<std::string, Entry> certain;  // On the disk.
    std::vector<Change> pending;           // Lead from `certain` to `entries`.
    bool locked = false;
  };
  class File;
  class Lottery;

  void begin_read() const;
  bool begin_operation();  // False: the process dies at this operation.
  void begin_whole_operation();
  const Entry* find(const std::string& path, bool follow) const;
  Folder& folder_at(const FolderPath& path) const;
  // The entry with that name in its folder. Null if there is no such entry or folder.
  const Entry* find(const FilePath& path) const;
  void apply(Folder& folder, Change change);
  std::unique_ptr<SimFileSystem> copy(const Lottery& lottery) const;

  mutable std::recursive_mutex mutex_;
  std::shared_ptr<Folder> root_ = std::make_shared<Folder>();
  std::uint64_t operations_ = 0;
  std::uint64_t crash_at_ = ~std::uint64_t{0};
  bool crashed_ = false;
  bool can_exchange_ = true;
  int link_error_ = 0;  // 0: links are supported.
  std::int64_t clock_ = 0;
};

}  // namespace cairn::testing
