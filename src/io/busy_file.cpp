#include "io/busy_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "io/file_descriptor.h"

namespace cairn {
namespace {

// A read lease is refused while anybody has the file open for writing.
bool is_open_for_writing(int fd) {
  // Whoever opens the file while we have the lease makes the kernel send us a signal; by default
  // one that kills. This one is ignored by default.
  if (fcntl(fd, F_SETSIG, SIGURG) != 0) return false;
  if (fcntl(fd, F_SETLEASE, F_RDLCK) != 0) return errno == EAGAIN;
  fcntl(fd, F_SETLEASE, F_UNLCK);
  return false;
}

}  // namespace

bool is_being_written(const std::string& path) {
  const FileDescriptor fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info = {};
  if (!fd.is_open() || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  const bool is_locked = flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  return is_locked || is_open_for_writing(fd.get());
}

}  // namespace cairn
