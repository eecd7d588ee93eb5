// An object of a store as a file of this machine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cairn/storage/object_store.h"

#include "io/threads/retry.h"

namespace cairn {

struct DownloadOptions {
  bool overwrite = false;
  RetryPolicy retry = {};
  std::uint64_t block_bytes = 8 << 20;  // read with one call
  // Called after each block with the bytes there are by now, and all of them.
  std::function<void(std::uint64_t done, std::uint64_t all)> on_progress = nullptr;
};

// Writes what has the name, or what a pointer of that name points at, to the file `destination`,
// which is there whole or not at all. Goes on behind the last block when a read fails. It is the
// object that had the name in the beginning. NotFoundError; AlreadyExistsError when the file is
// there, and not `overwrite`; StorageError.
void download(ObjectStore& store, const std::string& name, const std::string& destination,
              const DownloadOptions& options = {});

}  // namespace cairn
