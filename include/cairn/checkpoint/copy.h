// Copies a checkpoint unchanged from one place to another: local folders, buckets.
//
//   copy_checkpoint("ckpt/ep1-ba10-rank0.pt", "s3://bucket/run/");
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {

struct CopyOptions {
  // If true, a file may be replaced, and also a folder that holds only a checkpoint's files or
  // files that `from` has, too.
  bool overwrite = false;
  Verify verify = Verify::kFull;  // of the source, before anything has the new name
  // The stores of `from` and `to`. Default: the stores that the names say (cairn/storage/stores.h).
  std::shared_ptr<ObjectStore> from_store = nullptr;
  std::shared_ptr<ObjectStore> to_store = nullptr;
  // Called from time to time, in the calling thread, with the bytes written since the last call.
  std::function<void(std::uint64_t more)> on_progress = nullptr;
};

struct CopyResult {
  std::string path;         // the name that was written
  std::size_t objects = 0;  // 1, or the number of the folder's objects
  std::uint64_t bytes = 0;  // size of these objects
};

// Copies the checkpoint `from` to `to`. `from` is a file, a folder, or a pointer to one of them. If
// `to` ends with a slash, the copy keeps its own name in that folder. Copies exactly what it
// verified: if an object is replaced meanwhile, it throws StorageError. A file gets its name only
// when it is whole. In a folder, the file that makes the folder a checkpoint appears last.
//
// Memory: 8 MiB besides what the stores need. Objects of a far store are read once, on their way to
// this machine. Other objects are read twice: to verify, and to copy.
//
// Throws NotFoundError; CorruptError, with nothing written; AlreadyExistsError; StorageError.
// Throws UsageError if `from` is not a checkpoint, or is a folder with folders or pointers in it.
// Also throws UsageError if `to` is a folder with other files, has another format's extension (use
// convert()), or is `from` or inside of it.
CopyResult copy_checkpoint(const std::string& from, const std::string& to,
                           const CopyOptions& options = {});

}  // namespace cairn
