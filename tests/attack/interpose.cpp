#include "interpose.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace cairn::attack {
namespace {

constexpr std::size_t kMaxDescriptors = 4096;

Plan plan;
std::atomic<bool> armed = false;
std::atomic<std::uint64_t> count = 0;
std::array<std::atomic<bool>, kMaxDescriptors> is_inside;

// The function that the program would call without this library.
template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool concerns(const char* path) {
  return armed && path != nullptr && std::string_view(path).starts_with(plan.folder);
}

bool concerns(int fd) {
  return armed && fd >= 0 && static_cast<std::size_t>(fd) < kMaxDescriptors &&
         is_inside[static_cast<std::size_t>(fd)];
}

// A name in the folder of a descriptor.
struct NameAt {
  int folder;
  const char* name;
};

bool concerns(NameAt at) {
  const bool is_path = at.name != nullptr && (at.folder == AT_FDCWD || at.name[0] == '/');
  return is_path ? concerns(at.name) : concerns(at.folder);
}

void note(int fd, bool inside) {
  if (fd >= 0 && static_cast<std::size_t>(fd) < kMaxDescriptors) {
    is_inside[static_cast<std::size_t>(fd)] = inside;
  }
}

enum class Kind : std::uint8_t { kReading, kChanging };

// Counts a call. Returns true, with errno set, if the call is to fail. Calls `half_done` before the
// process is killed or the call fails.
template <class What, class HalfDone>
bool is_attacked(What what, Kind kind, const HalfDone& half_done) {
  if (!concerns(what)) return false;
  const Calls of_kind = kind == Kind::kReading ? Calls::kReading : Calls::kChanging;
  if (plan.calls != Calls::kAll && plan.calls != of_kind) return false;
  const std::uint64_t number = ++count;
  const bool is_due = plan.deed == AttackKind::kFailForever ? number >= plan.at : number == plan.at;
  if (!is_due || plan.deed == AttackKind::kNothing) return false;
  if (plan.deed == AttackKind::kSwap) {
    armed = false;
    plan.swap.make();
    armed = true;
    return false;
  }
  half_done();
  if (plan.deed == AttackKind::kKill) raise(SIGKILL);
  errno = plan.error;
  return true;
}

template <class What>
bool is_attacked(What what, Kind kind) {
  return is_attacked(what, kind, [] {});
}

}  // namespace

bool Swap::make() const {
  return rename(folder.c_str(), aside.c_str()) == 0 && symlink(target.c_str(), folder.c_str()) == 0;
}

bool Swap::take_back() const {
  return unlink(folder.c_str()) == 0 && rename(aside.c_str(), folder.c_str()) == 0;
}

void arm(const Plan& next) {
  armed = false;
  plan = next;
  count = 0;
  armed = true;
}

std::uint64_t disarm() {
  armed = false;
  return count;
}

}  // namespace cairn::attack

// --- The functions of libc ----------------------------------------------------------------------

using cairn::attack::is_attacked;
using cairn::attack::Kind;
using cairn::attack::NameAt;
using cairn::attack::note;
using cairn::attack::real;

extern "C" {

int openat(int folder, const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & (O_CREAT | O_TMPFILE)) != 0) {
    va_list more;
    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
  }
  const Kind kind = (flags & (O_CREAT | O_WRONLY | O_RDWR)) != 0 ? Kind::kChanging : Kind::kReading;
  if (is_attacked(NameAt{folder, path}, kind)) return -1;
  static auto* const next = real<int(int, const char*, int, ...)>("openat");
  const int fd = next(folder, path, flags, mode);
  note(fd, cairn::attack::concerns(NameAt{folder, path}));
  return fd;
}

int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & (O_CREAT | O_TMPFILE)) != 0) {
    va_list more;
    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
  }
  return openat(AT_FDCWD, path, flags, mode);
}

// _FORTIFY_SOURCE calls these two if the flags are not constant.
int __open_2(const char* path, int flags) { return open(path, flags); }  // NOLINT: libc's name
int __openat_2(int folder, const char* path, int flags) {                // NOLINT
  return openat(folder, path, flags);
}

// Attacks system calls that have no function in libc, such as openat2().
long syscall(long number, ...) noexcept {
  std::array<long, 6> arguments{};
  va_list more;
  va_start(more, number);
  for (long& argument : arguments) {
    argument = va_arg(more, long);
  }
  va_end(more);
  const auto& [a, b, c, d, e, f] = arguments;
  const NameAt at{static_cast<int>(a), reinterpret_cast<const char*>(b)};
  const bool is_open = number == SYS_openat2;
  if (is_open && is_attacked(at, Kind::kReading)) return -1;
  if (is_open && cairn::attack::armed && cairn::attack::plan.openat2_error != 0) {
    errno = cairn::attack::plan.openat2_error;
    return -1;
  }
  // Not a static initialiser: threads that wait for one call this function.
  static std::atomic<long (*)(long, ...)> next = nullptr;
  if (next == nullptr) next = real<long(long, ...)>("syscall");
  const long result = next.load()(number, a, b, c, d, e, f);
  if (is_open) note(static_cast<int>(result), cairn::attack::concerns(at));
  return result;
}

int mkostemp(char* path, int flags) {
  if (is_attacked(static_cast<const char*>(path), Kind::kChanging)) return -1;
  static auto* const next = real<int(char*, int)>("mkostemp");
  const int fd = next(path, flags);
  note(fd, cairn::attack::concerns(static_cast<const char*>(path)));
  return fd;
}

// The descriptor is closed in any case, as in Linux.
int close(int fd) {
  const bool fails = is_attacked(fd, Kind::kChanging);
  const int error = errno;
  note(fd, false);
  static auto* const next = real<int(int)>("close");
  const int result = next(fd);
  if (!fails) return result;
  errno = error;
  return -1;
}

ssize_t write(int fd, const void* bytes, size_t size) {
  static auto* const next = real<ssize_t(int, const void*, size_t)>("write");
  if (is_attacked(fd, Kind::kChanging, [&] { next(fd, bytes, size / 2); })) return -1;
  return next(fd, bytes, size);
}

ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  static auto* const next = real<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  if (is_attacked(fd, Kind::kChanging, [&] { next(fd, bytes, size / 2, offset); })) return -1;
  return next(fd, bytes, size, offset);
}

ssize_t read(int fd, void* bytes, size_t size) {
  if (is_attacked(fd, Kind::kReading)) return -1;
  static auto* const next = real<ssize_t(int, void*, size_t)>("read");
  return next(fd, bytes, size);
}

ssize_t pread(int fd, void* bytes, size_t size, off_t offset) {
  if (is_attacked(fd, Kind::kReading)) return -1;
  static auto* const next = real<ssize_t(int, void*, size_t, off_t)>("pread");
  return next(fd, bytes, size, offset);
}

ssize_t preadv(int fd, const struct iovec* places, int count, off_t offset) {
  if (is_attacked(fd, Kind::kReading)) return -1;
  static auto* const next = real<ssize_t(int, const struct iovec*, int, off_t)>("preadv");
  return next(fd, places, count, offset);
}

void* mmap(void* address, size_t size, int protection, int flags, int fd, off_t offset) noexcept {
  if ((flags & MAP_ANONYMOUS) == 0 && is_attacked(fd, Kind::kReading)) return MAP_FAILED;
  static auto* const next = real<void*(void*, size_t, int, int, int, off_t)>("mmap");
  return next(address, size, protection, flags, fd, offset);
}

int fsync(int fd) {
  if (is_attacked(fd, Kind::kChanging)) return -1;
  static auto* const next = real<int(int)>("fsync");
  return next(fd);
}

int fdatasync(int fd) {
  if (is_attacked(fd, Kind::kChanging)) return -1;
  static auto* const next = real<int(int)>("fdatasync");
  return next(fd);
}

int flock(int fd, int operation) noexcept {
  if (is_attacked(fd, Kind::kChanging)) return -1;
  static auto* const next = real<int(int, int)>("flock");
  return next(fd, operation);
}

int ftruncate(int fd, off_t size) noexcept {
  if (is_attacked(fd, Kind::kChanging)) return -1;
  static auto* const next = real<int(int, off_t)>("ftruncate");
  return next(fd, size);
}

int rename(const char* from, const char* to) noexcept {
  if (is_attacked(to, Kind::kChanging)) return -1;
  static auto* const next = real<int(const char*, const char*)>("rename");
  return next(from, to);
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  if (is_attacked(NameAt{to_folder, to}, Kind::kChanging)) return -1;
  static auto* const next = real<int(int, const char*, int, const char*)>("renameat");
  return next(from_folder, from, to_folder, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned flags) noexcept {
  if (is_attacked(NameAt{to_folder, to}, Kind::kChanging)) return -1;
  static auto* const next = real<int(int, const char*, int, const char*, unsigned)>("renameat2");
  return next(from_folder, from, to_folder, to, flags);
}

int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) noexcept {
  if (is_attacked(NameAt{to_folder, to}, Kind::kChanging)) return -1;
  static auto* const next = real<int(int, const char*, int, const char*, int)>("linkat");
  return next(from_folder, from, to_folder, to, flags);
}

int symlinkat(const char* target, int folder, const char* path) noexcept {
  if (is_attacked(NameAt{folder, path}, Kind::kChanging)) return -1;
  static auto* const next = real<int(const char*, int, const char*)>("symlinkat");
  return next(target, folder, path);
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  if (is_attacked(NameAt{folder, path}, Kind::kChanging)) return -1;
  static auto* const next = real<int(int, const char*, int)>("unlinkat");
  return next(folder, path, flags);
}

int mkdirat(int folder, const char* path, mode_t mode) noexcept {
  if (is_attacked(NameAt{folder, path}, Kind::kChanging)) return -1;
  static auto* const next = real<int(int, const char*, mode_t)>("mkdirat");
  return next(folder, path, mode);
}

int fstatat(int folder, const char* path, struct stat* info, int flags) noexcept {
  if (is_attacked(NameAt{folder, path}, Kind::kReading)) return -1;
  static auto* const next = real<int(int, const char*, struct stat*, int)>("fstatat");
  return next(folder, path, info, flags);
}

int unlink(const char* path) noexcept {
  if (is_attacked(path, Kind::kChanging)) return -1;
  static auto* const next = real<int(const char*)>("unlink");
  return next(path);
}

int rmdir(const char* path) noexcept {
  if (is_attacked(path, Kind::kChanging)) return -1;
  static auto* const next = real<int(const char*)>("rmdir");
  return next(path);
}

int mkdir(const char* path, mode_t mode) noexcept {
  if (is_attacked(path, Kind::kChanging)) return -1;
  static auto* const next = real<int(const char*, mode_t)>("mkdir");
  return next(path, mode);
}

int stat(const char* path, struct stat* info) noexcept {
  if (is_attacked(path, Kind::kReading)) return -1;
  static auto* const next = real<int(const char*, struct stat*)>("stat");
  return next(path, info);
}

int lstat(const char* path, struct stat* info) noexcept {
  if (is_attacked(path, Kind::kReading)) return -1;
  static auto* const next = real<int(const char*, struct stat*)>("lstat");
  return next(path, info);
}

int fstat(int fd, struct stat* info) noexcept {
  if (is_attacked(fd, Kind::kReading)) return -1;
  static auto* const next = real<int(int, struct stat*)>("fstat");
  return next(fd, info);
}

ssize_t readlink(const char* path, char* target, size_t size) noexcept {
  if (is_attacked(path, Kind::kReading)) return -1;
  static auto* const next = real<ssize_t(const char*, char*, size_t)>("readlink");
  return next(path, target, size);
}

DIR* opendir(const char* path) {
  if (is_attacked(path, Kind::kReading)) return nullptr;
  static auto* const next = real<DIR*(const char*)>("opendir");
  DIR* folder = next(path);
  if (folder != nullptr) note(dirfd(folder), cairn::attack::concerns(path));
  return folder;
}

int closedir(DIR* folder) {
  note(dirfd(folder), false);
  static auto* const next = real<int(DIR*)>("closedir");
  return next(folder);
}

struct dirent* readdir(DIR* folder) {
  if (is_attacked(dirfd(folder), Kind::kReading)) return nullptr;
  static auto* const next = real<struct dirent*(DIR*)>("readdir");
  return next(folder);
}

}  // extern "C"
