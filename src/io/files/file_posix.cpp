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

#include "core/existing.h"
#include "io/durable/atomic_file.h"
#include "io/durable/clean_up.h"
#include "io/file.h"
#include "io/file_descriptor.h"
#include "io/file_error.h"
#include "io/file_size_limit.h"
#include "io/files/busy_file.h"
#include "io/files/file_source.h"
#include "io/files/file_writer.h"
#include "io/files/lock_file.h"
#include "io/files/open_folder.h"
#include "io/files/probe_folder.h"
#include "io/uri.h"

namespace cairn {
namespace {

// Opens a file, and tries again when a signal interrupts it.
FileDescriptor try_open(const std::string& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC);
  } while (fd < 0 && errno == EINTR);
  return FileDescriptor(fd);
}

// Whether errno says that a path leads to nothing. A link may also lead to itself or to an
// impossible name.
bool leads_nowhere(int error) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG;
}

FileDescriptor create_file(const FilePath& path, bool is_private) {
  const mode_t mode = is_private ? 0600 : 0666;
  FileDescriptor fd = open_at_for_lock(path, O_WRONLY | O_CREAT | O_EXCL, mode);
  if (!fd.is_open()) throw_storage_error(errno, "cannot create " + path.text());
  return fd;
}

std::unique_ptr<WritableFile> make_writer(FileDescriptor fd, const std::string& path,
                                          std::uint64_t expected_bytes) {
  return expected_bytes >= kLargeFileBytes ? make_large_file_writer(std::move(fd), path)
                                           : make_small_file_writer(std::move(fd), path);
}

// A cleaner may take a new file for a dead one before it is locked, and remove it: try again.
FileDescriptor create_locked_file(const FilePath& path, bool is_private) {
  for (;;) {
    FileDescriptor fd = create_file(path, is_private);
    lock_opened(fd, LOCK_EX);  // where there are no locks, remove_unlocked() leaves the file
    struct stat info = {};
    if (fstat(fd.get(), &info) != 0) throw_storage_error(errno, "cannot examine " + path.text());
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
  result.is_private = (info.st_mode & (S_IRWXG | S_IRWXO)) == 0;
  result.changed = to_time(info.st_ctim);
  return result;
}

// Calls `act` with a descriptor of the folder and the name in it. Returns errno, or 0.
template <class Act>
int act_at(const FilePath& path, const Act& act) {
  const FileDescriptor folder = open_folder(path.folder, O_PATH);
  return folder.is_open() && act(folder.get(), path.name.c_str()) == 0 ? 0 : errno;
}

// Calls `act` with the descriptors and names of two paths, as a rename needs. Returns errno, or 0.
template <class Act>
int act_at(const FilePath& from, const FilePath& to, const Act& act) {
  const FileDescriptor folder = open_folder(from.folder, O_PATH);
  if (!folder.is_open()) return errno;
  const bool is_same = from.folder == to.folder;
  const FileDescriptor other = is_same ? FileDescriptor() : open_folder(to.folder, O_PATH);
  if (!is_same && !other.is_open()) return errno;
  const int target = is_same ? folder.get() : other.get();
  return act(folder.get(), from.name.c_str(), target, to.name.c_str()) == 0 ? 0 : errno;
}

// A renameat() that fails with EEXIST instead of replacing.
int rename_to_new_name(int folder, const char* from, int other, const char* to) {
  const int result = renameat2(folder, from, other, to, RENAME_NOREPLACE);
  if (result == 0 || (errno != EINVAL && errno != ENOSYS)) return result;
  // An old kernel, or a file system without that flag (NFS). A hard link never replaces anything
  // either. A folder cannot have a hard link, but a renamed folder replaces only an empty folder.
  struct stat info = {};
  const auto look = [&](int where, const char* name) {
    return fstatat(where, name, &info, AT_SYMLINK_NOFOLLOW) == 0;
  };
  if (look(folder, from) && S_ISDIR(info.st_mode)) {
    if (!look(other, to)) return renameat(folder, from, other, to);
    errno = EEXIST;
    return -1;
  }
  const int linked = linkat(folder, from, other, to, 0);
  return linked == 0 ? unlinkat(folder, from, 0) : linked;
}

class PosixFileSystem final : public FileSystem {
 public:
  std::unique_ptr<WritableFile> create(const FilePath& path,
                                       const CreateOptions& options) override {
    refuse_uri(path.text());
    ignore_file_size_signal();
    FileDescriptor fd = options.lock ? create_locked_file(path, options.is_private)
                                     : create_file(path, options.is_private);
    try {
      return make_writer(std::move(fd), path.text(), options.expected_bytes);
    } catch (...) {
      clean_up([&] { remove(path); });  // no other code knows that the file was made
      throw;
    }
  }

  std::unique_ptr<WritableFile> overwrite(const FilePath& path,
                                          std::uint64_t expected_bytes) override {
    refuse_uri(path.text());
    ignore_file_size_signal();
    FileDescriptor fd = open_at_for_lock(path, O_WRONLY | O_NONBLOCK);
    // Lock first: a later cleaner leaves the file, and an earlier cleaner has removed its name.
    if (!fd.is_open() || lock_opened(fd, LOCK_EX | LOCK_NB) != 0) return nullptr;
    struct stat info = {};
    const bool is_ours = fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode) &&
                         info.st_nlink == 1 && !is_open_elsewhere(fd.get());
    return is_ours ? make_writer(std::move(fd), path.text(), expected_bytes) : nullptr;
  }

  std::shared_ptr<const ByteSource> open(const std::string& path) override;

  void rename(const FilePath& from, const FilePath& to, bool overwrite) override {
    refuse_uri(to.text());
    const auto act = [overwrite](int folder, const char* name, int other, const char* new_name) {
      return overwrite ? renameat(folder, name, other, new_name)
                       : rename_to_new_name(folder, name, other, new_name);
    };
    const int error = act_at(from, to, act);
    if (error == EEXIST && !overwrite) {
      refuse_existing(to.text());
    }
    if (error == EISDIR || error == ENOTEMPTY || (error == EEXIST && overwrite)) {
      throw UsageError("cannot write " + to.text() + ": a folder has that name");
    }
    if (error != 0) throw_storage_error(error, "cannot rename " + from.text() + " to " + to.text());
  }

  bool exchange(const FilePath& one, const FilePath& other) override {
    const auto act = [](int folder, const char* name, int other_folder, const char* other_name) {
      return renameat2(folder, name, other_folder, other_name, RENAME_EXCHANGE);
    };
    const int error = act_at(one, other, act);
    if (error == 0) return true;
    if (error == EINVAL || error == ENOSYS || error == EOPNOTSUPP) return false;
    throw_storage_error(error, "cannot exchange " + one.text() + " and " + other.text());
  }

  std::shared_ptr<void> lock_folder(const FolderPath& path) override {
    auto fd = std::make_shared<FileDescriptor>(open_folder_for_lock(path, O_RDONLY));
    if (!fd->is_open() || lock_opened(*fd, LOCK_EX | LOCK_NB) != 0) return nullptr;
    return fd;
  }

  FileLock lock_file(const FilePath& path, const std::string& text) override {
    return lock_posix_file(path, text);
  }

  std::optional<std::uint64_t> free_bytes(const std::string& folder) override {
    const FolderSpace space = folder_space(folder);
    const bool compresses = space.file_system == "btrfs" || space.file_system == "zfs";
    return compresses ? std::nullopt : std::optional(space.free_bytes);
  }

  void make_link(const std::string& target, const FilePath& path) override {
    refuse_uri(path.text());
    const int error = act_at(path, [&](int folder, const char* name) {
      return symlinkat(target.c_str(), folder, name);
    });
    if (error != 0) throw_storage_error(error, "cannot create the symbolic link " + path.text());
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

  bool remove(const FilePath& path) override {
    const int error =
        act_at(path, [](int folder, const char* name) { return unlinkat(folder, name, 0); });
    if (error == ENOENT || error == ENOTDIR) return false;
    if (error != 0) throw_storage_error(error, "cannot remove " + path.text());
    return true;
  }

  bool remove_unlocked(const FilePath& path) override {
    const FileDescriptor fd = open_to_lock(path);
    if (!fd.is_open()) {
      if (errno == ENOENT) return false;
      if (errno == ELOOP) return remove(path);  // a link: no process can hold a lock on it
      if (errno == EISDIR) return remove_unlocked_folder(path);
      // The folder's permissions decide whether it may be removed, not the file's own.
      if (is_forbidden(errno) && !is_temporary_name(path.name)) return remove(path);
      throw_storage_error(errno, "cannot open " + path.text());
    }
    // The lock is held until after the removal. A writer that wants to lock the file now waits, and
    // then sees that its file is gone.
    const int error = lock_opened(fd, LOCK_EX | LOCK_NB);
    // Without locks, it is unknown whether the writer of a temporary file lives. A file with its
    // final name is finished.
    const bool is_held = error == EWOULDBLOCK || (error != 0 && is_temporary_name(path.name));
    return !is_held && remove(path);
  }

  bool remove_unlocked_folder(const FilePath& path) {
    const auto held = lock_folder(path.as_folder());
    if (held == nullptr) return false;
    for (std::string& name : list(path.text())) {
      remove({path.as_folder(), std::move(name)});
    }
    return remove_folder(path);
  }

  bool remove_folder(const FilePath& path) override {
    const int error = act_at(
        path, [](int folder, const char* name) { return unlinkat(folder, name, AT_REMOVEDIR); });
    if (error == ENOENT) return false;
    if (error != 0) throw_storage_error(error, "cannot remove the folder " + path.text());
    return true;
  }

  void make_folders(const FolderPath& path) override;

  void sync_folder(const FolderPath& path) override {
    const FileDescriptor fd = open_folder(path, O_RDONLY);
    if (!fd.is_open()) throw_storage_error(errno, "cannot open the folder " + path.text());
    sync_opened(fd, path);
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

 private:
  static void sync_opened(const FileDescriptor& folder, const FolderPath& path);
  // Returns false if nothing has this name. Throws UsageError as make_folders(wanted) does.
  bool is_folder(const FolderPath& path, const FolderPath& wanted);
};

void PosixFileSystem::sync_opened(const FileDescriptor& folder, const FolderPath& path) {
  const int error = sync_opened_folder(folder);
  if (error != 0) throw_storage_error(error, "cannot sync the folder " + path.text());
}

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

// Throws if `path` is a link to a folder that does not exist. For such a link, stat() finds
// nothing, and mkdir() says that `path` exists.
void refuse_dangling_link(const std::string& path) {
  std::string target(PATH_MAX, '\0');
  const ssize_t size = readlink(path.c_str(), target.data(), target.size());
  struct stat info = {};
  if (size < 0 || ::stat(path.c_str(), &info) == 0) return;
  target.resize(static_cast<std::size_t>(size));
  throw StorageError("cannot create the folder " + path + ": it is a link to " +
                         join_path(parent_path(path), target) +
                         ", which is not there; create that folder, or remove the link",
                     ENOENT);
}

bool PosixFileSystem::is_folder(const FolderPath& path, const FolderPath& wanted) {
  if (open_folder(path, O_PATH).is_open()) return true;
  if (!leads_nowhere(errno)) throw_read_error(errno, "cannot examine " + path.text());
  const auto there = stat(path.text(), /*follow=*/path.below.empty());
  // If `path` is a folder that open_folder() cannot open, a link above it is in the way.
  if (!there || there->type == FileInfo::Type::kFolder) return false;
  const std::string doing = "cannot create the folder " + wanted.text() + ": " + path.text();
  if (there->type != FileInfo::Type::kLink) throw UsageError(doing + " is not a folder");
  throw UsageError(doing + " is a link, and below " + FolderPath(path.root).text() +
                   " none is followed: replace it by a folder, or save into the folder that it " +
                   "leads to");
}

void PosixFileSystem::make_folders(const FolderPath& path) {
  refuse_uri(path.text());
  std::vector<FolderPath> missing;  // deepest first
  FolderPath there = path;
  while (!is_folder(there, path)) {
    missing.push_back(there);
    there = there.parent();
  }
  // A process that was killed between creating a folder and syncing its parent leaves a folder that
  // a power cut may undo. Folders are made one by one, so only the deepest existing folder can be
  // such a folder.
  const FolderPath above = there.parent();
  const FileDescriptor opened = open_folder(above, O_RDONLY);
  if (opened.is_open()) {
    sync_opened(opened, above);
  } else if (!is_forbidden(errno)) {
    throw_storage_error(errno, "cannot open the folder " + above.text());
  }
  for (auto folder = missing.rbegin(); folder != missing.rend(); ++folder) {
    const FolderPath parent = folder->parent();
    const FilePath made(parent, base_name(folder->text()));
    const int error =
        act_at(made, [](int in, const char* name) { return mkdirat(in, name, 0777); });
    if (error != 0) {
      if (error != EEXIST) throw_storage_error(error, "cannot create the folder " + folder->text());
      refuse_dangling_link(folder->text());
    }
    sync_folder(parent);
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
