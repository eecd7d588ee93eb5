#include "io/file_descriptor.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace cairn {
namespace {

// Linux transfers at most 2 GiB - 4 KiB in one call; whole MiB keep direct writes aligned.
constexpr std::size_t kMostBytesPerCall = std::size_t{1} << 30;

// Calls write(bytes) until all bytes have gone.
template <class Write>
int repeat_until_done(ByteView bytes, const Write& write) {
  while (!bytes.empty()) {
    const ssize_t n = write(bytes.first(std::min(bytes.size(), kMostBytesPerCall)));
    if (n > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    } else if (n == 0) {
      return ENOSPC;  // a device that takes nothing and says nothing is full
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

int FileDescriptor::close() {
  if (!is_open()) return 0;
  const int fd = std::exchange(fd_, -1);
  return ::close(fd) == 0 || errno == EINTR ? 0 : errno;
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
