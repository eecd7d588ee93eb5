// The two ways in which posix_file_system() writes a file: small ones through a buffer and the page
// cache, large ones in big aligned blocks past the page cache, written by background threads while
// the caller fills the next block.
#pragma once

#include <memory>
#include <string>

#include "io/file.h"
#include "io/file_descriptor.h"

namespace cairn {

// Files expected to be at least this large are written past the page cache: below it, starting
// threads and the padding of the last block cost more than they save.
inline constexpr std::uint64_t kLargeFileBytes = std::uint64_t{16} << 20;

std::unique_ptr<WritableFile> make_small_file_writer(FileDescriptor fd, std::string path);

// Uses 24 MiB and two threads until it is closed.
std::unique_ptr<WritableFile> make_large_file_writer(FileDescriptor fd, const std::string& path);

// What both share: a descriptor that is dead after its first failure.
class FailingOnce {
 public:
  FailingOnce(FileDescriptor fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  int fd() const { return fd_.get(); }
  bool failed() const { return error_ != 0; }
  // Throws when `error`, an errno value, is not 0, and from then on always.
  void check(int error);
  // Cuts off what lies behind `end`, then fdatasync.
  void sync(std::uint64_t end);
  void close();

 private:
  FileDescriptor fd_;
  std::string path_;
  int error_ = 0;
};

}  // namespace cairn
