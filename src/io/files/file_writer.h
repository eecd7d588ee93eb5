// The two ways in which posix_file_system() writes a file. Small files go through a buffer and the
// page cache. Large files go past the page cache in big aligned blocks, which background threads
// write while the caller fills the next one.
#pragma once

#include <memory>
#include <string>

#include "io/file.h"
#include "io/file_descriptor.h"

namespace cairn {

// Files expected to be at least this large are written past the page cache. For smaller ones,
// starting threads and padding the last block cost more than they save.
inline constexpr std::uint64_t kLargeFileBytes = std::uint64_t{16} << 20;

std::unique_ptr<WritableFile> make_small_file_writer(FileDescriptor fd, std::string path);

// Uses 24 MiB and two threads until it is closed.
std::unique_ptr<WritableFile> make_large_file_writer(FileDescriptor fd, const std::string& path);

// Both writers use this: a descriptor on which every call fails after the first failure.
class FailingOnce {
 public:
  FailingOnce(FileDescriptor fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  int fd() const { return fd_.get(); }
  bool failed() const { return error_ != 0; }
  // Throws if `error`, an errno value, is not 0. From then on it always throws.
  void check(int error);
  // Cuts off what follows `end`, then calls fdatasync.
  void sync(std::uint64_t end);
  void close();

 private:
  FileDescriptor fd_;
  std::string path_;
  int error_ = 0;
};

}  // namespace cairn
