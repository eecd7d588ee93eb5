// All bytes of a file.
#pragma once

#include <string>

#include "io/file.h"

namespace cairn::testing {

// A view, where the file system has one; errors as of FileSystem::open() and ByteSource::view().
inline SharedBytes file_bytes(FileSystem& files, const std::string& path) {
  const auto source = files.open(path);
  return source->view(0, source->size());
}

}  // namespace cairn::testing
