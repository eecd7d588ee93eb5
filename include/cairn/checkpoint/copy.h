// Copying a checkpoint as it is, from one place to another: folders of this machine, buckets.
//
//   copy_checkpoint("ckpt/ep1-ba10-rank0.pt", "s3://bucket/run/");
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cairn/checkpoint/checkpoint.h"

namespace cairn {

struct CopyOptions {
  // A file that has the name, or a folder with no file but a checkpoint's own, and those that
  // `from` has, too.
  bool overwrite = false;
  Verify verify = Verify::kFull;  // of what is copied, before anything of it has the new name
  // In which the names are: by default what their places say (cairn/storage/stores.h).
  std::shared_ptr<ObjectStore> from_store = nullptr;
  std::shared_ptr<ObjectStore> to_store = nullptr;
  // Called now and then, from the calling thread: bytes that were written since.
  std::function<void(std::uint64_t more)> on_progress = nullptr;
};

struct CopyResult {
  std::string path;         // what was written
  std::size_t objects = 0;  // 1, or those of the folder
  std::uint64_t bytes = 0;  // in them
};

// Writes the bytes of the checkpoint `from`, a file or a folder of them, or what a pointer of that
// name points at, under the name `to`; under its own name in `to` when that ends with a slash.
// What was verified is what is copied, or nothing is: an object that was replaced meanwhile is a
// StorageError. It appears whole, and of a folder what readers know it by last.
// Memory: 8 MiB beside what the stores need. A far store's objects are read once on their way to
// this machine. Anything else is read twice: to verify, and to copy. NotFoundError; CorruptError,
// and nothing was written; AlreadyExistsError; UsageError for what is no checkpoint, for a folder
// with folders or pointers in it, for one to replace that holds other files, for a name with
// another format's extension (convert() is for that), and for a place in itself; StorageError.
CopyResult copy_checkpoint(const std::string& from, const std::string& to,
                           const CopyOptions& options = {});

}  // namespace cairn
