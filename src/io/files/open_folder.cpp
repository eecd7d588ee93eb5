#include "io/files/open_folder.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

namespace cairn {
namespace {

// Calls `open` again when a signal interrupts it.
template <class Open>
FileDescriptor open_uninterrupted(const Open& open) {
  int fd = -1;
  do {
    fd = open();
  } while (fd < 0 && errno == EINTR);
  return FileDescriptor(fd);
}

FileDescriptor open_beneath(const FileDescriptor& root, const std::string& names, int flags) {
  struct open_how how = {};
  how.flags = static_cast<std::uint64_t>(flags);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  return open_uninterrupted([&] {
    return static_cast<int>(syscall(SYS_openat2, root.get(), names.c_str(), &how, sizeof how));
  });
}

// Opens one folder in another. Some kernels say ENOTDIR for a link.
FileDescriptor open_next(const FileDescriptor& folder, const std::string& name, int flags) {
  FileDescriptor next =
      open_uninterrupted([&] { return openat(folder.get(), name.c_str(), flags | O_NOFOLLOW); });
  if (next.is_open() || errno != ENOTDIR) return next;
  struct stat info = {};
  const bool is_link =
      fstatat(folder.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
  errno = is_link ? ELOOP : ENOTDIR;
  return next;
}

FileDescriptor open_step_by_step(FileDescriptor folder, const std::string& names, int flags) {
  std::size_t begin = 0;
  while (folder.is_open() && begin < names.size()) {
    const std::size_t end = std::min(names.find('/', begin), names.size());
    const bool is_last = end == names.size();
    folder = open_next(folder, names.substr(begin, end - begin),
                       is_last ? flags : O_PATH | O_DIRECTORY | O_CLOEXEC);
    begin = end + 1;
  }
  return folder;
}

}  // namespace

FileDescriptor open_folder(const FolderPath& folder, int flags) {
  const bool is_root = folder.below.empty();
  const std::string root = folder.root.empty() ? "." : folder.root;
  flags |= O_DIRECTORY | O_CLOEXEC;
  FileDescriptor fd = open_uninterrupted(
      [&] { return ::open(root.c_str(), is_root ? flags : O_PATH | O_DIRECTORY | O_CLOEXEC); });
  if (is_root || !fd.is_open()) return fd;
  FileDescriptor found = open_beneath(fd, folder.below, flags);
  const bool has_none = !found.is_open() && (errno == ENOSYS || errno == EPERM);
  return has_none ? open_step_by_step(std::move(fd), folder.below, flags) : std::move(found);
}

FileDescriptor open_at(const FilePath& path, int flags, mode_t mode) {
  FileDescriptor folder = open_folder(path.folder, O_PATH);
  if (!folder.is_open()) return {};
  FileDescriptor opened = open_uninterrupted([&] {
    return openat(folder.get(), path.name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, mode);
  });
  const int error = errno;
  folder.close();
  errno = error;  // of the open
  return opened;
}

FileDescriptor open_folder_for_lock(const FolderPath& folder, int flags) {
  return FileDescriptor::open_for_lock([&] { return open_folder(folder, flags).release(); });
}

FileDescriptor open_at_for_lock(const FilePath& path, int flags, mode_t mode) {
  return FileDescriptor::open_for_lock([&] { return open_at(path, flags, mode).release(); });
}

bool is_forbidden(int error) { return error == EACCES || error == EPERM || error == EROFS; }

FileDescriptor open_to_lock(const FilePath& path, int create) {
  FileDescriptor fd = open_at_for_lock(path, O_RDWR | O_NONBLOCK | create, 0666);
  if (fd.is_open() || !is_forbidden(errno)) return fd;
  return open_at_for_lock(path, O_RDONLY | O_NONBLOCK);
}

int lock_opened(const FileDescriptor& fd, int operation) {
  int result = 0;
  do {
    result = flock(fd.get(), operation);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

int sync_opened_folder(const FileDescriptor& folder) {
  int result = 0;
  do {
    result = fsync(folder.get());
  } while (result != 0 && errno == EINTR);
  const bool needs_none = result != 0 && (errno == EINVAL || errno == EOPNOTSUPP);
  return result == 0 || needs_none ? 0 : errno;
}

}  // namespace cairn
