// The contract of FileSystem as tests. Each implementation's own test file registers it once.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "io/file.h"

namespace cairn::testing {

struct OpenedFileSystem {
  std::shared_ptr<FileSystem> files;
  std::string folder;  // an empty one in it
};

struct FileSystemConformance {
  std::string name;  // of the suite: "PosixFileSystem"
  std::function<OpenedFileSystem()> open;
  bool has_links = true;  // symbolic ones
};

// Registers the tests; call it once from a global initializer. Returns true.
bool register_file_system_tests(const FileSystemConformance& suite);

}  // namespace cairn::testing
