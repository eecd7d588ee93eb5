// A checkpoint file opened for loading, verifying or looking at.
#pragma once

#include <optional>
#include <string>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/format/torch_file.h"

#include "base/file.h"
#include "checkpoint/manifest.h"

namespace cairn {

struct OpenCheckpoint {
  std::string path;
  SharedBytes bytes;
  TorchFile file;
  std::optional<Manifest> manifest;
};

// Reads the directory of records and the manifest. NotFoundError, UsageError, UnsupportedError,
// CorruptError, StorageError.
OpenCheckpoint open_checkpoint(FileSystem& files, const std::string& path);

// As verify(), for what open_checkpoint() could open.
VerifyReport verify_opened(const OpenCheckpoint& checkpoint, Verify how);

inline FileSystem& files_or_default(FileSystem* files) {
  return files != nullptr ? *files : posix_file_system();
}

}  // namespace cairn
