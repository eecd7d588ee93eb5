// Encoding a Value straight into a file that is replaced atomically.
#pragma once

#include <cstdint>
#include <string>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/storage/object_store.h"
#include "cairn/value.h"

#include "checkpoint/plan/file_image.h"

namespace cairn {

struct WriteCheckpointOptions {
  bool overwrite = true;
  CheckpointInfo info = {};
};

// What save() does and promises; returns the size of the file.
std::uint64_t write_checkpoint(ObjectStore& store, const Value& value, const std::string& path,
                               const WriteCheckpointOptions& options);

// The same of a snapshot, once. Lets go of the live tensors before the first byte is written.
std::uint64_t write_checkpoint(ObjectStore& store, FileImage& image, const std::string& path,
                               const WriteCheckpointOptions& options);

// What writing a file of this name would say of its extension: UsageError that lists all there are,
// or names the program that is needed and not installed.
void check_extension(const std::string& path);

}  // namespace cairn
