// posix_file_system(): each function is one or a few system calls.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "cairn/error.h"

#include "io/atomic_file.h"
#include "io/busy_file.h"
#include "io/file.h"
#include "io/file_descriptor.h"
#include "io/file_error.h"
#include "io/file_size_limit.h"
#include "io/file_source.h"
#include "io/file_writer.h"
#include "io/uri.h"

namespace cairn {
namespace {

// Opens, whatever signals come.
FileDescriptor try_open(const std::string& path, int flags, mode_t mode = 0) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return FileDescriptor(fd);
}

bool is_forbidden(int error) { return error == EACCES || error == EPERM || error == EROFS; }

// For writing, because NFS gives exclusive locks on nothing else; nothing is written. Another
// user's file, say, is opened for reading: elsewhere that is enough.
FileDescriptor open_to_lock(const std::string& path) {
  constexpr int kFlags = O_NOFOLLOW | O_NONBLOCK;
  FileDescriptor fd = try_open(path, O_RDWR | kFlags);
  if (fd.is_open() || !is_forbidden(errno)) return fd;
  return try_open(path, O_RDONLY | kFlags);
}

int lock(int fd, int operation) {
  int result = 0;
  do {
    result = flock(fd, operation);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

// Whether following a path ended at nothing: a link may also lead to a name that none can have, or
// to itself.
bool leads_nowhere(int error) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG;
}

FileDescriptor create_file(const std::string& path) {
  FileDescriptor fd = try_open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
  if (!fd.is_open()) throw_storage_error(errno, "cannot create " + path);
  return fd;
}

std::unique_ptr<WritableFile> make_writer(FileDescriptor fd, const std::string& path,
                                          std::uint64_t expected_bytes) {
  return expected_bytes >= kLargeFileBytes ? make_large_file_writer(std::move(fd), path)
                                           : make_small_file_writer(std::move(fd), path);
}

// A cleaner may take a new file for a dead one before it is locked, and remove it: then once more.
FileDescriptor create_locked_file(const std::string& path) {
  for (;;) {
    FileDescriptor fd = create_file(path);
    lock(fd.get(), LOCK_EX);  // where there are no locks, remove_unlocked() leaves it
    struct stat info = {};
    if (fstat(fd.get(), &info) != 0) throw_storage_error(errno, "cannot examine " + path);
    if (info.st_nlink > 0) return fd;
  }
}

std::chrono::system_clock::time_point to_time(const timespec& time) {
  return std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec)));
}

FileInfo to_file_info(const struct stat& info) {
  FileInfo result;
  result.type = S_ISREG(info.st_mode)   ? FileInfo::Type::kRegular
                : S_ISDIR(info.st_mode) ? FileInfo::Type::kFolder
                : S_ISLNK(info.st_mode) ? FileInfo::Type::kLink
                                        : FileInfo::Type::kOther;
  result.size = static_cast<std::uint64_t>(info.st_size);
  result.modified = to_time(info.st_mtim);
  result.inode = info.st_ino;
  result.links = info.st_nlink;
  result.changed = to_time(info.st_ctim);
  return result;
}

// rename() that fails with EEXIST rather than replace: an errno value, or 0.
int rename_to_new_name(const char* from, const char* to) {
  if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  // An old kernel, or a file system without that flag (NFS): a hard link never replaces either. A
  // folder cannot have one, and replaces nothing but an empty folder.
  struct stat info = {};
  if (lstat(from, &info) == 0 && S_ISDIR(info.st_mode)) {
    if (lstat(to, &info) == 0) return EEXIST;
    return ::rename(from, to) == 0 ? 0 : errno;
  }
  if (link(from, to) != 0) return errno;
  return unlink(from) == 0 ? 0 : errno;
}

class PosixFileSystem final : public FileSystem {
 public:
  std::unique_ptr<WritableFile> create(const std::string& path,
                                       const CreateOptions& options) override {
    refuse_uri(path);
    ignore_file_size_signal();
    return make_writer(options.lock ? create_locked_file(path) : create_file(path), path,
                       options.expected_bytes);
  }

  std::unique_ptr<WritableFile> overwrite(const std::string& path,
                                          std::uint64_t expected_bytes) override {
    refuse_uri(path);
    ignore_file_size_signal();
    FileDescriptor fd = try_open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK);
    // Locked first: a cleaner that comes now leaves it, and one that was here has removed its name.
    if (!fd.is_open() || lock(fd.get(), LOCK_EX | LOCK_NB) != 0) return nullptr;
    struct stat info = {};
    const bool is_ours = fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode) &&
                         info.st_nlink == 1 && !is_open_elsewhere(fd.get());
    return is_ours ? make_writer(std::move(fd), path, expected_bytes) : nullptr;
  }

  std::shared_ptr<const ByteSource> open(const std::string& path) override;

  void rename(const std::string& from, const std::string& to, bool overwrite) override {
    refuse_uri(to);
    const int error = overwrite ? (::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno)
                                : rename_to_new_name(from.c_str(), to.c_str());
    if (error == EEXIST && !overwrite) {
      throw AlreadyExistsError(to + " exists already: choose another name, or allow overwriting");
    }
    if (error == EISDIR || error == ENOTEMPTY || (error == EEXIST && overwrite)) {
      throw UsageError("cannot write " + to + ": a folder has that name");
    }
    if (error != 0) throw_storage_error(error, "cannot rename " + from + " to " + to);
  }

  bool exchange(const std::string& one, const std::string& other) override {
    if (renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0)
      return true;
    if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) return false;
    throw_storage_error(errno, "cannot exchange " + one + " and " + other);
  }

  std::shared_ptr<void> lock_folder(const std::string& path) override {
    auto fd = std::make_shared<FileDescriptor>(try_open(path, O_RDONLY | O_DIRECTORY));
    if (!fd->is_open() || lock(fd->get(), LOCK_EX | LOCK_NB) != 0) return nullptr;
    return fd;
  }

  void make_link(const std::string& target, const std::string& path) override {
    refuse_uri(path);
    if (symlink(target.c_str(), path.c_str()) != 0) {
      throw_storage_error(errno, "cannot create the symbolic link " + path);
    }
  }

  std::optional<std::string> read_link(const std::string& path) override {
    std::string target(PATH_MAX, '\0');
    const ssize_t size = readlink(path.c_str(), target.data(), target.size());
    if (size < 0) {
      if (errno == EINVAL || errno == ENOENT || errno == ENOTDIR) return std::nullopt;
      throw_read_error(errno, "cannot read the symbolic link " + path);
    }
    target.resize(static_cast<std::size_t>(size));
    return target;
  }

  bool remove(const std::string& path) override {
    if (unlink(path.c_str()) == 0) return true;
    if (errno == ENOENT || errno == ENOTDIR) return false;
    throw_storage_error(errno, "cannot remove " + path);
  }

  bool remove_unlocked(const std::string& path) override {
    const FileDescriptor fd = open_to_lock(path);
    if (!fd.is_open()) {
      if (errno == ENOENT) return false;
      if (errno == ELOOP) return remove(path);  // a link: nobody can hold a lock on it
      if (errno == EISDIR) return remove_unlocked_folder(path);
      // Whether it may be removed its folder says, not the file itself.
      if (is_forbidden(errno) && !is_temporary_name(base_name(path))) return remove(path);
      throw_storage_error(errno, "cannot open " + path);
    }
    // Held until after the removal: a writer that comes now waits, and sees that its file is gone.
    const int error = lock(fd.get(), LOCK_EX | LOCK_NB);
    // Where there are no locks, nobody can tell whether the writer of a temporary file lives. What
    // has its final name is finished.
    const bool is_held = error == EWOULDBLOCK || (error != 0 && is_temporary_name(base_name(path)));
    return !is_held && remove(path);
  }

  bool remove_unlocked_folder(const std::string& path) {
    const auto held = lock_folder(path);
    if (held == nullptr) return false;
    for (const std::string& name : list(path)) {
      remove(join_path(path, name));
    }
    return remove_folder(path);
  }

  bool remove_folder(const std::string& path) override {
    if (rmdir(path.c_str()) == 0) return true;
    if (errno == ENOENT) return false;
    throw_storage_error(errno, "cannot remove the folder " + path);
  }

  void make_folders(const std::string& path) override;

  void sync_folder(const std::string& path) override {
    const FileDescriptor fd = try_open(path, O_RDONLY | O_DIRECTORY);
    if (!fd.is_open()) throw_storage_error(errno, "cannot open the folder " + path);
    int result = 0;
    do {
      result = fsync(fd.get());
    } while (result != 0 && errno == EINTR);
    // EINVAL: a file system (some network ones) that has nothing to sync for a folder.
    if (result != 0 && errno != EINVAL)
      throw_storage_error(errno, "cannot sync the folder " + path);
  }

  std::optional<FileInfo> stat(const std::string& path, bool follow) override {
    refuse_uri(path);
    struct stat info = {};
    const int result = follow ? ::stat(path.c_str(), &info) : lstat(path.c_str(), &info);
    if (result == 0) return to_file_info(info);
    const bool is_nothing = follow ? leads_nowhere(errno) : errno == ENOENT || errno == ENOTDIR;
    if (is_nothing) return std::nullopt;
    throw_read_error(errno, "cannot examine " + path);
  }

  std::vector<std::string> list(const std::string& folder) override;
};

std::shared_ptr<const ByteSource> PosixFileSystem::open(const std::string& path) {
  refuse_uri(path);
  // O_NONBLOCK: opening a named pipe would otherwise wait for a writer.
  FileDescriptor fd = try_open(path, O_RDONLY | O_NONBLOCK);
  if (!fd.is_open()) {
    if (leads_nowhere(errno)) throw NotFoundError("there is no file " + path);
    if (errno == ENXIO) throw UsageError(path + " is a socket or a device, not a file");
    throw_read_error(errno, "cannot open " + path);
  }
  struct stat info = {};
  if (fstat(fd.get(), &info) != 0) throw_read_error(errno, "cannot examine " + path);
  if (S_ISDIR(info.st_mode)) throw UsageError(path + " is a folder, not a file");
  if (!S_ISREG(info.st_mode)) throw UsageError(path + " is a device or a pipe, not a file");
  return make_file_source(std::move(fd), path);
}

void PosixFileSystem::make_folders(const std::string& path) {
  std::vector<std::string> missing;  // deepest first
  std::string there = path;
  while (!stat(there, true)) {
    missing.push_back(there);
    there = parent_path(there);
  }
  if (stat(there, true)->type != FileInfo::Type::kFolder) {
    throw UsageError("cannot create the folder " + path + ": " + there + " is not a folder");
  }
  // A process that was killed between creating a folder and syncing its parent leaves one that a
  // power cut may take back. Folders are made one by one, so that it can only be the deepest.
  const std::string above = parent_path(there);
  if (access(above.c_str(), R_OK) == 0) sync_folder(above);
  for (auto folder = missing.rbegin(); folder != missing.rend(); ++folder) {
    if (mkdir(folder->c_str(), 0777) != 0 && errno != EEXIST) {
      throw_storage_error(errno, "cannot create the folder " + *folder);
    }
    sync_folder(parent_path(*folder));
  }
}

std::vector<std::string> PosixFileSystem::list(const std::string& folder) {
  refuse_uri(folder);
  const std::unique_ptr<DIR, int (*)(DIR*)> handle(opendir(folder.c_str()), closedir);
  if (handle == nullptr) {
    if (errno == ENOENT) throw NotFoundError("there is no folder " + folder);
    if (errno == ENOTDIR) throw UsageError(folder + " is not a folder");
    throw_read_error(errno, "cannot list the folder " + folder);
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(handle.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
    errno = 0;
  }
  if (errno != 0) throw_read_error(errno, "cannot list the folder " + folder);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

FileSystem& posix_file_system() {
  static PosixFileSystem files;
  return files;
}

}  // namespace cairn
