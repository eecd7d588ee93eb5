// All bytes of a file.
#pragma once

#include <string>

#include "io/file.h"

namespace cairn::testing {

// Returns a view of the file if the file system has one. Throws as FileSystem::open() and
// ByteSource::view() do.
inline SharedBytes file_bytes(FileSystem& files, const std::string& path) {
  const auto source = files.open(path);
  return source->view(0, source->size());
}

}  // namespace cairn::testing
