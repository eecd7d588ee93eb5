// Copies an object of a store to a file of this machine.
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
  std::uint64_t block_bytes = 8 << 20;  // bytes read with one call
  // Called after each block, with the bytes written so far and the whole size.
  std::function<void(std::uint64_t done, std::uint64_t all)> on_progress = nullptr;
};

// Writes the object, or the object that the pointer `name` points at, to the file `destination`,
// which appears whole or not at all. After a failed read, download() continues after the last
// block. download() always reads the object that had the name in the beginning. Throws
// NotFoundError, AlreadyExistsError if the file exists and `overwrite` is false, and StorageError.
void download(ObjectStore& store, const std::string& name, const std::string& destination,
              const DownloadOptions& options = {});

}  // namespace cairn
