// An open file descriptor, and functions that write to one until everything is written.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "cairn/bytes.h"

namespace cairn {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), is_for_lock_(std::exchange(other.is_for_lock_, false)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(is_for_lock_, other.is_for_lock_);
    return *this;
  }
  ~FileDescriptor() { close(); }

  // Opens a descriptor that will hold an advisory lock: `open` returns it, or -1 with errno. The
  // lock belongs to the open file, which the child of a fork() shares. A child that outlives this
  // process would keep the lock. So every child loses this descriptor: in the child, its number
  // stands for a descriptor that cannot be read, written or locked. O_CLOEXEC does the same for
  // exec().
  // `open` must not fork, and must not open another such descriptor.
  static FileDescriptor open_for_lock(const std::function<int()>& open);

  bool is_open() const { return fd_ >= 0; }
  int get() const { return fd_; }
  // Gives up the number, which the caller must then close. Returns -1 if this is not open. Not for
  // a descriptor of open_for_lock().
  int release() { return std::exchange(fd_, -1); }
  // Returns errno, or 0. The descriptor is closed in either case: Linux releases the descriptor
  // even if close fails.
  int close();

 private:
  int fd_ = -1;
  bool is_for_lock_ = false;  // open_for_lock()
};

// Each returns errno, or 0 when all is written. Interrupted calls are repeated, short writes are
// continued.
int write_all(int fd, ByteView bytes);                           // at the descriptor's position
int write_all_at(int fd, ByteView bytes, std::uint64_t offset);  // pwrite

}  // namespace cairn
