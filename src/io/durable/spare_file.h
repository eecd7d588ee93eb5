// A file that nobody wants any more, kept so that the next one can be written over it: its room on
// the disk is there already, which makes writing faster (docs/performance.md).
//
//  1. It is renamed to a temporary name, and the folder is synced: no crash gives it its name back
//     from here on. What a killed process leaves of it is a leftover like any other.
//  2. It is written over only when FileSystem::overwrite() is certain that nobody can miss it:
//     whoever opened it while it had its name is noticed then.
//  3. Otherwise, or when there is nothing to write any more, it is removed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "io/file.h"

namespace cairn {

class SpareFile {
 public:
  // Takes `path`, a file, out of use; durably when this returns. StorageError: it has its name
  // still, or is gone.
  SpareFile(FileSystem& files, const FilePath& path);
  // Removes it, unless release() was called.
  ~SpareFile();
  SpareFile(const SpareFile&) = delete;
  SpareFile& operator=(const SpareFile&) = delete;

  // A temporary name; in the folder where it was.
  const FilePath& path() const { return *path_; }
  // Opens it to be written over. nullptr when it may not be, whatever the reason.
  std::unique_ptr<WritableFile> overwrite(std::uint64_t expected_bytes);
  // Its path, and from now on somebody else removes it.
  FilePath release() { return *std::exchange(path_, std::nullopt); }

 private:
  FileSystem& files_;
  std::optional<FilePath> path_;  // until release()
};

}  // namespace cairn
