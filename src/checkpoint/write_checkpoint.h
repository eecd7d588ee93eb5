// Encoding a Value straight into a file that is replaced atomically.
#pragma once

#include <cstdint>
#include <string>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/value.h"

#include "base/file.h"

namespace cairn {

struct WriteCheckpointOptions {
  bool overwrite = true;
  CheckpointInfo info = {};
};

// What save() does and promises; returns the size of the file.
std::uint64_t write_checkpoint(FileSystem& files, const Value& value, const std::string& path,
                               const WriteCheckpointOptions& options);

// UnsupportedError naming the extension unless it is ".pt" or none.
void check_extension(const std::string& path);

}  // namespace cairn
