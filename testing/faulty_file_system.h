// A file system that fails, lies or kills the process at a chosen call. It forwards everything else
// to another file system.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "io/file.h"

namespace cairn::testing {

enum class FileCall : std::uint8_t {
  kCreate,
  kWrite,
  kSync,
  kClose,
  kOpen,
  kRead,
  kRename,
  kMakeLink,
  kReadLink,
  kRemove,
  kRemoveUnlocked,
  kMakeFolders,
  kSyncFolder,
  kStat,
  kList,
  kExchange,
  kLockFolder,
  kOverwrite,
};

// Thread-safe if the wrapped file system is.
class FaultyFileSystem : public FileSystem {
 public:
  explicit FaultyFileSystem(FileSystem& under) : under_(under) {}

  // Makes the n-th call from now (of kind `kind`, or of any kind), counted from 1, throw the real
  // file system's error for errno `error` instead of doing its work. A write does half of its work
  // first.
  void fail(FileCall kind, std::uint64_t n, int error);
  void fail(std::uint64_t n, int error);
  // From now on, calls of this kind do nothing and report success: a broken protocol. Only for
  // kSync, kSyncFolder and kRemove.
  void skip(FileCall kind);
  // `hook` is called before each call, with its number over all kinds, counted from 1.
  void before_each(std::function<void(FileCall kind, std::uint64_t number)> hook);

  std::uint64_t calls() const;
  std::uint64_t calls(FileCall kind) const;

  std::unique_ptr<WritableFile> create(const FilePath& path, const CreateOptions& options) override;
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
  bool remove_folder(const FilePath& path) override;  // Counted as kind kRemove.
  void make_folders(const FolderPath& path) override;
  void sync_folder(const FolderPath& path) override;
  std::optional<FileInfo> stat(const std::string& path, bool follow) override;
  std::vector<std::string> list(const std::string& folder) override;

 private:
  class File;
  class Source;
  struct Fault {
    std::optional<FileCall> kind;
    std::uint64_t calls_left;
    int error;
  };
  enum class Verdict : std::uint8_t { kDo, kSkip };

  // Counts the call. If its turn to fail has come, calls `half_done` and throws.
  Verdict begin(FileCall kind, const std::string& path,
                const std::function<void()>& half_done = nullptr);

  FileSystem& under_;
  mutable std::mutex mutex_;
  std::vector<Fault> faults_;
  std::set<FileCall> skipped_;
  std::function<void(FileCall, std::uint64_t)> hook_;
  std::vector<std::uint64_t> counts_ = std::vector<std::uint64_t>(18);
};

}  // namespace cairn::testing
