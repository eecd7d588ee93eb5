#include "io/files/busy_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "io/file_descriptor.h"
#include "io/file_system_kind.h"

namespace cairn {
namespace {

// Takes a lease and gives it back at once. Returns 0, or errno: EAGAIN if the file is open
// elsewhere.
int try_lease(int fd, int type) {
  // If a process opens the file during the lease, the kernel sends this process a signal. The
  // default signal would kill it. SIGURG is ignored by default.
  if (fcntl(fd, F_SETSIG, SIGURG) != 0 || fcntl(fd, F_SETLEASE, type) != 0) return errno;
  fcntl(fd, F_SETLEASE, F_UNLCK);
  return 0;
}

// A read lease is refused while any process has the file open for writing.
bool is_open_for_writing(int fd) { return try_lease(fd, F_RDLCK) == EAGAIN; }

}  // namespace

bool is_being_written(const std::string& path) {
  const FileDescriptor fd = FileDescriptor::open_for_lock(
      [&] { return open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC); });
  struct stat info = {};
  if (!fd.is_open() || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  const bool is_locked = flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  return is_locked || is_open_for_writing(fd.get());
}

// A write lease is refused while the file is open elsewhere. A mapping keeps a file open.
bool is_open_elsewhere(int fd) {
  return !file_system_of(fd).has_sure_leases || try_lease(fd, F_WRLCK) != 0;
}

}  // namespace cairn
