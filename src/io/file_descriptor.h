// An open file descriptor, and writing to one until everything is written.
#pragma once

#include <cstdint>
#include <utility>

#include "cairn/bytes.h"

namespace cairn {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() { close(); }

  bool is_open() const { return fd_ >= 0; }
  int get() const { return fd_; }
  // errno, or 0. Closed in either case: Linux has let go of the descriptor also when close fails.
  int close();

 private:
  int fd_ = -1;
};

// Each returns errno, or 0 when all is done. Interrupted calls are repeated, short writes
// continued.
int write_all(int fd, ByteView bytes);                           // at the descriptor's position
int write_all_at(int fd, ByteView bytes, std::uint64_t offset);  // pwrite

}  // namespace cairn
