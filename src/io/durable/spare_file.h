// A superseded file that is kept so that the next file can be written over it. Its blocks on the
// disk are already allocated, which makes writing faster (bench/results/saving_and_loading.md).
//
//  1. The file is renamed to a temporary name, and the folder is synced. From here on no crash
//     gives the file its old name back. If the process is killed, the file is a leftover like any
//     other.
//  2. The file is overwritten only if FileSystem::overwrite() is certain that no process can miss
//     its old content. That call also notices a process that opened the file under its old name.
//  3. Otherwise, or if there is nothing more to write, the file is removed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "io/file.h"

namespace cairn {

class SpareFile {
 public:
  // Takes the file `path` out of use (step 1); this is durable when the constructor returns. If it
  // throws StorageError, the file still has its name or is gone.
  SpareFile(FileSystem& files, const FilePath& path);
  // Removes the file, unless release() was called.
  ~SpareFile();
  SpareFile(const SpareFile&) = delete;
  SpareFile& operator=(const SpareFile&) = delete;

  // The temporary name of the file, in the folder where the file was.
  const FilePath& path() const { return *path_; }
  // Opens the file to be overwritten. Returns nullptr if that is not allowed, for whatever reason.
  std::unique_ptr<WritableFile> overwrite(std::uint64_t expected_bytes);
  // Returns its path. From now on the caller removes the file.
  FilePath release() { return *std::exchange(path_, std::nullopt); }

 private:
  FileSystem& files_;
  std::optional<FilePath> path_;  // until release()
};

}  // namespace cairn
