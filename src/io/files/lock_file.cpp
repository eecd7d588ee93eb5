#include "io/files/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "cairn/error.h"

#include "io/file_descriptor.h"
#include "io/file_error.h"
#include "io/file_system_kind.h"
#include "io/files/open_folder.h"

namespace cairn {
namespace {

constexpr std::size_t kLongestText = 4096;

bool is_same_file(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

// Whether the open file has this name in the folder.
bool has_name(const FileDescriptor& folder, const std::string& name, const FileDescriptor& fd) {
  struct stat named = {};
  struct stat own = {};
  return fstat(fd.get(), &own) == 0 &&
         fstatat(folder.get(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         is_same_file(named, own);
}

class HeldFile {
 public:
  HeldFile(FileDescriptor folder, std::string name, FileDescriptor file)
      : folder_(std::move(folder)), name_(std::move(name)), file_(std::move(file)) {}
  // In the child of a fork() the descriptor no longer refers to the file, so the name stays.
  ~HeldFile() {
    if (has_name(folder_, name_, file_)) unlinkat(folder_.get(), name_.c_str(), 0);
  }
  HeldFile(const HeldFile&) = delete;
  HeldFile& operator=(const HeldFile&) = delete;

 private:
  FileDescriptor folder_;
  std::string name_;
  FileDescriptor file_;  // closed first: members are destroyed in reverse order
};

// Whether flock() says that the file system has no locks; ENOLCK: NFS without its lock service.
bool is_without_locks(int error) {
  return error == EOPNOTSUPP || error == ENOSYS || error == EINVAL || error == ENOLCK;
}

std::string text_of(const FileDescriptor& fd) {
  std::string text(kLongestText, '\0');
  const ssize_t size = pread(fd.get(), text.data(), text.size(), 0);
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return text;
}

// On a full disk the file stays empty: the lock holds without a text. The text is synced, because
// other machines read it from a file server while this process has the file open.
void write_text(const FileDescriptor& fd, const std::string& text) {
  if (ftruncate(fd.get(), 0) == 0 && write_all_at(fd.get(), as_bytes(text), 0) == 0)
    fdatasync(fd.get());
}

}  // namespace

FileLock FileSystem::lock_file(const FilePath& /*path*/, const std::string& /*text*/) {
  return {.has_locks = false};
}

std::optional<std::uint64_t> FileSystem::free_bytes(const std::string& /*folder*/) {
  return std::nullopt;
}

FileLock lock_posix_file(const FilePath& place, const std::string& text) {
  const std::string& name = place.name;
  const std::string path = place.text();  // for messages
  FileDescriptor folder = open_folder(place.folder, O_PATH);
  if (!folder.is_open()) throw_storage_error(errno, "cannot open the folder of " + path);
  for (int attempts_left = 16; attempts_left > 0; --attempts_left) {
    FileDescriptor fd = open_to_lock(place, O_CREAT);
    if (!fd.is_open()) throw_storage_error(errno, "cannot open the lock " + path);
    struct stat info = {};
    if (fstat(fd.get(), &info) != 0) throw_storage_error(errno, "cannot examine " + path);
    if (!S_ISREG(info.st_mode)) throw UsageError("cannot lock " + path + ": it is no file");
    const int error = lock_opened(fd, LOCK_EX | LOCK_NB);
    if (error == EWOULDBLOCK) {
      return {.holder = text_of(fd), .is_held_here = file_system_of(fd.get()).is_of_this_machine};
    }
    if (!is_without_locks(error) && error != 0) throw_storage_error(error, "cannot lock " + path);
    if (error != 0) {
      unlinkat(folder.get(), name.c_str(), 0);  // a file without a lock means nothing
      return {.has_locks = false};
    }
    if (!has_name(folder, name, fd)) continue;
    write_text(fd, text);
    return {.held = std::make_shared<HeldFile>(std::move(folder), name, std::move(fd))};
  }
  // Other processes do not end this often. This file system gives a file a new inode number each
  // time.
  return {.has_locks = false};
}

LockState state_of_lock(const FilePath& path) {
  const FileDescriptor fd = open_at_for_lock(path, O_RDONLY | O_NONBLOCK);
  struct stat info = {};
  if (!fd.is_open() || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode))
    return LockState::kUnknown;
  const int error = lock_opened(fd, LOCK_SH | LOCK_NB);
  if (error == EWOULDBLOCK) return LockState::kHeld;
  return error == 0 ? LockState::kFree : LockState::kUnknown;
}

}  // namespace cairn
