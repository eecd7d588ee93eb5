#include "io/files/file_handle.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>
#include <vector>

#include "cairn/error.h"

#include "io/file.h"
#include "io/file_error.h"

namespace cairn {
namespace {

using SharedDescriptor = std::shared_ptr<const FileDescriptor>;

std::size_t most_open() {
  constexpr std::size_t kLeast = 16;
  constexpr std::size_t kMax = 1024;
  struct rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kLeast;
  return std::clamp<std::size_t>(limit.rlim_cur / 4, kLeast, kMax);
}

std::int64_t nanoseconds(const timespec& time) {
  constexpr std::int64_t kPerSecond = 1'000'000'000;
  return time.tv_sec * kPerSecond + time.tv_nsec;
}

}  // namespace

// The handles with an open descriptor; the last one used is in front.
class FileHandles {
 public:
  SharedDescriptor find(const FileHandle& handle) {
    const std::lock_guard lock(mutex_);
    if (handle.fd_) open_.splice(open_.begin(), open_, handle.place_);
    return handle.fd_;
  }

  // Keeps `fd`, and closes the descriptors for which there is no room any more.
  SharedDescriptor keep(const FileHandle& handle, SharedDescriptor fd) {
    const std::size_t most = most_open();
    std::vector<SharedDescriptor> closed;  // destroyed after the lock is released
    const std::lock_guard lock(mutex_);
    if (handle.fd_) return handle.fd_;  // another thread was faster
    while (open_.size() >= most) {
      closed.push_back(std::move(open_.back()->fd_));
      open_.pop_back();
    }
    handle.fd_ = std::move(fd);
    handle.place_ = open_.insert(open_.begin(), &handle);
    return handle.fd_;
  }

  void forget(const FileHandle& handle) {
    const std::lock_guard lock(mutex_);
    if (handle.fd_) open_.erase(handle.place_);
  }

 private:
  std::mutex mutex_;
  std::list<const FileHandle*> open_;
};

namespace {

// Never destroyed: handles may outlive every static object.
FileHandles& handles() {
  static auto* const all = new FileHandles;
  return *all;
}

}  // namespace

FileHandle::FileHandle(FileDescriptor fd, const std::string& path)
    : path_(path), absolute_path_(absolute_path(path)), opened_(state_of(fd)) {
  handles().keep(*this, std::make_shared<const FileDescriptor>(std::move(fd)));
}

FileHandle::~FileHandle() { handles().forget(*this); }

SharedDescriptor FileHandle::get() const {
  if (auto fd = handles().find(*this)) return fd;
  return handles().keep(*this, open_again());
}

void FileHandle::check_unchanged(const FileDescriptor& fd) const {
  const State now = state_of(fd);
  if (now.size == opened_.size && now.modified == opened_.modified) return;
  throw UnreadableError(path_ + " was written to since it was opened: open it again", EIO);
}

SharedDescriptor FileHandle::open_again() const {
  int fd = -1;
  do {
    fd = ::open(absolute_path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
    throw UnreadableError(path_ + " was removed since it was opened: open it again", ESTALE);
  }
  if (fd < 0) throw_read_error(errno, "cannot open " + path_ + " again");
  auto opened = std::make_shared<const FileDescriptor>(fd);
  const State now = state_of(*opened);
  const bool is_same = now.device == opened_.device && now.inode == opened_.inode &&
                       now.size == opened_.size && now.modified == opened_.modified &&
                       now.changed == opened_.changed;
  if (is_same) return opened;
  throw UnreadableError(path_ + " was replaced or written to since it was opened: open it again",
                        ESTALE);
}

FileHandle::State FileHandle::state_of(const FileDescriptor& fd) const {
  struct stat info = {};
  if (fstat(fd.get(), &info) != 0) throw_read_error(errno, "cannot examine " + path_);
  return {info.st_dev, info.st_ino, static_cast<std::uint64_t>(info.st_size),
          nanoseconds(info.st_mtim), nanoseconds(info.st_ctim)};
}

}  // namespace cairn
