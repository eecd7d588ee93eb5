// A file system in memory that can lose power.
//
// It keeps two truths: what a running process sees, and what is on the disk for certain. Bytes are
// certain after WritableFile::sync(); names are certain after sync_folder() of their folder. After
// a crash, after_power_loss() gives every disk that the promises of POSIX allow: for each folder
// any subset of the changes since its last sync (a rename is one change), for each file any of
// several ways to lose what was not synced: nothing, all, the second half, zeros in place of the
// data, the first half zeroed or, in a file that is overwritten, old; old and new in turns. Real
// file systems are kinder; a protocol that survives here survives there.
//
// Symbolic links are followed only as the last part of a path, or of a root, "x/.." is taken by its
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

// Thrown by every call from the crash on. Not an Error, so that nobody handles it by mistake.
struct SimulatedCrash {};

class SimFileSystem final : public FileSystem {
 public:
  SimFileSystem();  // holds the root folder "/"

  std::unique_ptr<WritableFile> create(const FilePath& path, const CreateOptions& options) override;
  // Not while somebody has what open() gave, or the lock.
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

  // From now on there are no symbolic links, as on FAT: make_link fails with errno `error`. What
  // is left after a crash has none either.
  void refuse_links(int error);

  // exchange() says false from now on, as on NFS.
  void forget_exchange() { can_exchange_ = false; }

  // Operations so far: calls that change or sync something, each write and sync of a file, and each
  // step of make_folders.
  std::uint64_t operations() const;
  // The process dies at that operation, counted from 1: it is not done (a write: half of it), and
  // every call from then on throws SimulatedCrash.
  void crash_at(std::uint64_t operation);
  bool crashed() const;

  // The disks that a restarted machine may find; one that lives on if only the process died is the
  // first. Each is a file system of its own on which everything is certain.
  std::vector<std::unique_ptr<SimFileSystem>> after_power_loss() const;
  std::unique_ptr<SimFileSystem> after_kill() const;
  // One of after_power_loss(), also where they are too many to go through: `draw(n)` gives a number
  // below n, and the same numbers give the same disk.
  std::unique_ptr<SimFileSystem> after_power_loss(
      const std::function<std::uint64_t(std::uint64_t)>& draw) const;

  // All names with the size of files and the text of links: for messages of failing tests.
  std::string describe() const;

 private:
  struct Inode {
    std::string bytes;    // what processes see
    std::string certain;  // what is on the disk
    bool locked = false;
    std::int64_t number = 0;
    std::int64_t modified = 0;
    std::int64_t changed = 0;
    std::shared_ptr<int> opened = std::make_shared<int>();  // shared by all who read it
  };
  struct Folder;
  struct Entry {  // exactly one of the three
    std::shared_ptr<Inode> file;
    std::shared_ptr<Folder> folder;
    std::string link;
  };
  // Names that change together; nullopt: the name goes.
  using Change = std::vector<std::pair<std::string, std::optional<Entry>>>;
  struct Folder {
    std::map<std::string, Entry> entries;  // what processes see
    std::map<std::string, Entry> certain;  // what is on the disk
    std::vector<Change> pending;           // from one to the other
    bool locked = false;
  };
  class File;
  class Lottery;

  void begin_read() const;
  bool begin_operation();  // false: this is the operation at which the process dies
  void begin_whole_operation();
  const Entry* find(const std::string& path, bool follow) const;
  Folder& folder_at(const FolderPath& path) const;
  // The entry of that name in its folder; null when there is no such entry or folder.
  const Entry* find(const FilePath& path) const;
  void apply(Folder& folder, Change change);
  std::unique_ptr<SimFileSystem> copy(const Lottery& lottery) const;

  mutable std::recursive_mutex mutex_;
  std::shared_ptr<Folder> root_ = std::make_shared<Folder>();
  std::uint64_t operations_ = 0;
  std::uint64_t crash_at_ = ~std::uint64_t{0};
  bool crashed_ = false;
  bool can_exchange_ = true;
  int link_error_ = 0;  // 0: there are links
  std::int64_t clock_ = 0;
};

}  // namespace cairn::testing
