#include "io/file_descriptor.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <new>
#include <vector>

namespace cairn {
namespace {

// The descriptors of open_for_lock(). fork() waits while such a descriptor is being opened:
// otherwise a child could keep a descriptor that is open but not noted yet. Never destroyed: a
// fork() may come at any time.
class LockDescriptors {
 public:
  static LockDescriptors& of_this_process() {
    static auto* const all = new LockDescriptors;
    return *all;
  }

  int open(const std::function<int()>& open) {
    const std::scoped_lock lock(mutex_);
    fds_.reserve(fds_.size() + 1);
    const int fd = open();
    if (fd >= 0) fds_.push_back(fd);
    return fd;
  }

  int close(int fd) {
    const std::scoped_lock lock(mutex_);
    std::erase(fds_, fd);
    return ::close(fd);
  }

 private:
  LockDescriptors() {
    const int error = pthread_atfork([] { of_this_process().mutex_.lock(); },
                                     [] { of_this_process().mutex_.unlock(); },
                                     [] { of_this_process().lose_in_child(); });
    if (error != 0) throw std::bad_alloc();  // ENOMEM; the next lock tries this again
  }

  // Makes only system calls that are safe in the child of a process with several threads.
  void lose_in_child() {
    const int nothing = ::open("/", O_PATH | O_CLOEXEC);
    for (const int fd : fds_) {
      if (nothing < 0 || dup3(nothing, fd, O_CLOEXEC) < 0) ::close(fd);
    }
    if (nothing >= 0) ::close(nothing);
    fds_.clear();
    mutex_.unlock();
  }

  std::mutex mutex_;
  std::vector<int> fds_;
};

// Linux transfers at most 2 GiB - 4 KiB in one call; whole MiB keep direct writes aligned.
constexpr std::size_t kMaxBytesPerCall = std::size_t{1} << 30;

// Calls write(bytes) until all bytes are written.
template <class Write>
int repeat_until_done(ByteView bytes, const Write& write) {
  while (!bytes.empty()) {
    const ssize_t n = write(bytes.first(std::min(bytes.size(), kMaxBytesPerCall)));
    if (n > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    } else if (n == 0) {
      return ENOSPC;  // a device that accepts no bytes and reports no error is full
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

FileDescriptor FileDescriptor::open_for_lock(const std::function<int()>& open) {
  FileDescriptor opened(LockDescriptors::of_this_process().open(open));
  opened.is_for_lock_ = opened.is_open();
  return opened;
}

int FileDescriptor::close() {
  if (!is_open()) return 0;
  const int fd = std::exchange(fd_, -1);
  const bool is_for_lock = std::exchange(is_for_lock_, false);
  const int result = is_for_lock ? LockDescriptors::of_this_process().close(fd) : ::close(fd);
  return result == 0 || errno == EINTR ? 0 : errno;
}

int write_all(int fd, ByteView bytes) {
  return repeat_until_done(bytes,
                           [&](ByteView part) { return ::write(fd, part.data(), part.size()); });
}

int write_all_at(int fd, ByteView bytes, std::uint64_t offset) {
  return repeat_until_done(bytes, [&](ByteView part) {
    const ssize_t n = ::pwrite(fd, part.data(), part.size(), static_cast<off_t>(offset));
    if (n > 0) offset += static_cast<std::uint64_t>(n);
    return n;
  });
}

}  // namespace cairn
