// Files that grow, and survive restarts of their program.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/file_descriptor.h"

namespace cairn {

// A text file that grows line by line: a log. When append() returns, the kernel has the bytes: they
// survive the process, but not necessarily a power cut.
class AppendFile {
 public:
  // Opens or creates `path`, with missing folders. Begins a new line if an earlier writer was
  // killed inside one. `truncate` empties the file first. Throws StorageError.
  explicit AppendFile(std::string path, bool truncate = false);

  void append(std::string_view text);  // throws StorageError

 private:
  std::string path_;
  FileDescriptor file_;
};

// Cuts off what follows the first `size` bytes of a regular file. Returns false if there is no such
// file. Throws StorageError.
bool cut_file(const std::string& path, std::uint64_t size);

// A file of records, which can be continued at an earlier size. append() is as AppendFile's.
class ContinuedFile {
 public:
  // A new file that begins with `begin`, with missing folders. Throws StorageError, also if the
  // file exists.
  ContinuedFile(std::string path, std::string_view begin);
  // Cuts off what follows the first `size` bytes. Throws CorruptError, and leaves the file as it
  // is, if it does not begin with `begin`, or is shorter. Throws StorageError.
  ContinuedFile(std::string path, std::string_view begin, std::uint64_t size);

  void append(std::string_view bytes);  // throws StorageError
  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }

 private:
  std::string path_;
  FileDescriptor file_;
  std::uint64_t size_ = 0;
};

}  // namespace cairn
