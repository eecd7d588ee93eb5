#include "io/durable/spare_file.h"

#include "cairn/error.h"

#include "io/durable/atomic_file.h"

namespace cairn {

SpareFile::SpareFile(FileSystem& files, const FilePath& path)
    : files_(files), path_(temporary_path(path)) {
  files_.rename(path, *path_);
  try {
    files_.sync_folder(path_->folder);
  } catch (...) {
    remove_quietly(files_, *path_);
    throw;
  }
}

SpareFile::~SpareFile() {
  if (path_) remove_quietly(files_, *path_);
}

std::unique_ptr<WritableFile> SpareFile::overwrite(std::uint64_t expected_bytes) {
  try {
    return files_.overwrite(*path_, expected_bytes);
  } catch (const StorageError&) {
    return nullptr;  // a new file serves as well, and reports the error if it persists
  }
}

}  // namespace cairn
