// The contract of FileSystem as tests. Each implementation's own test file registers it once.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "io/file.h"

namespace cairn::testing {

struct OpenedFileSystem {
  std::shared_ptr<FileSystem> files;
  std::string folder;  // An empty folder in `files`.
};

struct FileSystemConformance {
  std::string name;  // The suite's name: "PosixFileSystem".
  std::function<OpenedFileSystem()> open;
  bool has_links = true;  // Supports symbolic links.
};

// Registers the tests; call it once from a global initializer. Returns true.
bool register_file_system_tests(const FileSystemConformance& suite);

}  // namespace cairn::testing
