#include "io/files/probe_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <system_error>

#include "io/file_descriptor.h"
#include "io/file_error.h"
#include "io/file_path.h"
#include "io/file_system_kind.h"
#include "io/files/open_folder.h"

namespace cairn {
namespace {

// The alignment that direct writes require of memory, offsets and sizes.
constexpr std::size_t kBlock = 4096;

// errno if a call failed (-1), otherwise 0.
int error_of(int result) { return result < 0 ? errno : 0; }

// A folder for the probes. The destructor removes the folder and everything that the probes left.
// Every call goes through one descriptor of the folder, because another program may put a link in
// its place.
class Workshop {
 public:
  explicit Workshop(const std::string& folder) : path_(folder + "/.cairn-doctor-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) {
      error_ = errno;
      return;
    }
    folder_ = open_folder(FilePath(path_).as_folder(), O_RDONLY);
    if (folder_.is_open()) return;
    error_ = errno;
    rmdir(path_.c_str());
  }
  ~Workshop() {
    if (!folder_.is_open()) return;
    for (const char* name : {"file", "second", "link", "direct"}) {
      unlinkat(fd(), name, 0);
    }
    rmdir(path_.c_str());
  }
  Workshop(const Workshop&) = delete;
  Workshop& operator=(const Workshop&) = delete;

  int error() const { return error_; }
  int fd() const { return folder_.get(); }
  const FileDescriptor& folder() const { return folder_; }
  FileDescriptor open(const char* name, int flags) const {
    return FileDescriptor(openat(fd(), name, flags | O_NOFOLLOW | O_CLOEXEC, 0600));
  }
  FileDescriptor open_for_lock(const char* name, int flags) const {
    return FileDescriptor::open_for_lock([&] { return open(name, flags).release(); });
  }

 private:
  std::string path_;
  FileDescriptor folder_;
  int error_ = 0;
};

// Each probe returns errno, or 0, and may add a `detail`. The probes build on one another: the
// first probe makes "file".
using Probe = int (*)(const Workshop& shop, std::string& detail);

int probe_create(const Workshop& shop, std::string& /*detail*/) {
  const FileDescriptor fd = shop.open("file", O_WRONLY | O_CREAT | O_EXCL);
  return fd.is_open() ? write_all(fd.get(), as_bytes("cairn")) : errno;
}

int probe_sync(const Workshop& shop, std::string& /*detail*/) {
  const FileDescriptor fd = shop.open("file", O_RDWR);
  return fd.is_open() ? error_of(fdatasync(fd.get())) : errno;
}

int probe_sync_folder(const Workshop& shop, std::string& /*detail*/) {
  return sync_opened_folder(shop.folder());
}

int probe_map(const Workshop& shop, std::string& /*detail*/) {
  const FileDescriptor fd = shop.open("file", O_RDONLY);
  if (!fd.is_open()) return errno;
  void* memory = mmap(nullptr, 5, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (memory == MAP_FAILED) return errno;
  const bool is_same = std::memcmp(memory, "cairn", 5) == 0;
  munmap(memory, 5);
  return is_same ? 0 : EIO;
}

int probe_rename(const Workshop& shop, std::string& /*detail*/) {
  const FileDescriptor fd = shop.open("second", O_WRONLY | O_CREAT | O_EXCL);
  if (!fd.is_open()) return errno;
  const int error = write_all(fd.get(), as_bytes("cairn"));
  return error != 0 ? error : error_of(renameat(shop.fd(), "second", shop.fd(), "file"));
}

int probe_rename_noreplace(const Workshop& shop, std::string& /*detail*/) {
  const FileDescriptor fd = shop.open("second", O_WRONLY | O_CREAT | O_EXCL);
  if (!fd.is_open()) return errno;
  const int error = error_of(renameat2(shop.fd(), "second", shop.fd(), "file", RENAME_NOREPLACE));
  unlinkat(shop.fd(), "second", 0);
  return error == EEXIST ? 0 : error == 0 ? EIO : error;
}

int probe_symlink(const Workshop& shop, std::string& /*detail*/) {
  const int error = error_of(symlinkat("file", shop.fd(), "link"));
  std::array<char, 8> target{};
  if (error != 0) return error;
  return readlinkat(shop.fd(), "link", target.data(), target.size()) == 4 ? 0 : EIO;
}

int probe_lock(const Workshop& shop, std::string& /*detail*/) {
  const FileDescriptor one = shop.open_for_lock("file", O_RDWR);
  const FileDescriptor two = shop.open_for_lock("file", O_RDWR);
  if (!one.is_open() || !two.is_open()) return errno;
  if (flock(one.get(), LOCK_EX | LOCK_NB) != 0) return errno;
  return flock(two.get(), LOCK_EX | LOCK_NB) != 0 ? 0 : ENOLCK;
}

int probe_unnamed(const Workshop& shop, std::string& /*detail*/) {
  const FileDescriptor fd = shop.open(".", O_TMPFILE | O_RDWR);
  return fd.is_open() ? 0 : errno;
}

int probe_direct(const Workshop& shop, std::string& /*detail*/) {
  const FileDescriptor fd = shop.open("direct", O_WRONLY | O_CREAT | O_EXCL | O_DIRECT);
  if (!fd.is_open()) return errno;
  const std::unique_ptr<void, void (*)(void*)> block(std::aligned_alloc(kBlock, kBlock), std::free);
  if (block == nullptr) return ENOMEM;
  std::memset(block.get(), 0, kBlock);
  return write_all(fd.get(), {static_cast<const std::byte*>(block.get()), kBlock});
}

int probe_case(const Workshop& shop, std::string& detail) {
  const bool is_same = faccessat(shop.fd(), "FILE", F_OK, 0) == 0;
  detail = is_same ? "no: EP1.pt and ep1.pt are one file here" : "yes";
  return 0;
}

// Detects a file server whose clock differs from this machine's. keep-within and keep-daily would
// use the server's clock.
int probe_clock(const Workshop& shop, std::string& detail) {
  const auto now = std::chrono::system_clock::now();
  unlinkat(shop.fd(), "second", 0);
  const FileDescriptor fd = shop.open("second", O_WRONLY | O_CREAT | O_EXCL);
  struct stat info = {};
  if (!fd.is_open() || fstat(fd.get(), &info) != 0) return errno;
  const auto seconds = std::chrono::system_clock::to_time_t(now) - info.st_mtim.tv_sec;
  const bool is_close = std::abs(seconds) <= 2;
  detail = is_close ? "within 2 s of this machine's clock"
                    : std::to_string(seconds) + " s behind this machine's clock";
  return is_close ? 0 : ETIME;
}

struct ProbeRow {
  const char* name;
  const char* meaning;
  bool is_needed;
  Probe probe;
};

constexpr std::array kRows = {
    ProbeRow{"create", "make and write a file", true, probe_create},
    ProbeRow{"sync", "a file survives a power cut", true, probe_sync},
    ProbeRow{"sync_folder", "a name survives a power cut", true, probe_sync_folder},
    ProbeRow{"map", "checkpoints are read without copying them", true, probe_map},
    ProbeRow{"rename", "replace a file in one step", true, probe_rename},
    ProbeRow{"rename_noreplace", "rename without overwriting; otherwise by a hard link", false,
             probe_rename_noreplace},
    ProbeRow{"symlink", "the link `latest`; else a file of that name with .symlink", false,
             probe_symlink},
    ProbeRow{"lock", "tell a living writer's file from a dead one's", false, probe_lock},
    ProbeRow{"unnamed_file", "scratch files; otherwise with a name, removed at once", false,
             probe_unnamed},
    ProbeRow{"direct_io", "save past the page cache; else through it", false, probe_direct},
    ProbeRow{"case", "names differ by case", false, probe_case},
    ProbeRow{"file_times", "the file server's clock agrees with this machine's", false,
             probe_clock},
};

std::string message_of(int error) {
  return std::error_code(error, std::generic_category()).message();
}

}  // namespace

std::vector<FolderProbe> probe_folder(const std::string& folder) {
  const Workshop shop(folder);
  if (shop.error() != 0) {
    return {{.name = kRows.front().name,
             .meaning = kRows.front().meaning,
             .is_needed = true,
             .detail = message_of(shop.error())}};
  }
  std::vector<FolderProbe> probes;
  for (const ProbeRow& row : kRows) {
    FolderProbe probe{.name = row.name, .meaning = row.meaning, .is_needed = row.is_needed};
    const int error = row.probe(shop, probe.detail);
    probe.works = error == 0;
    if (!probe.works && probe.detail.empty()) probe.detail = message_of(error);
    probes.push_back(std::move(probe));
  }
  return probes;
}

FolderSpace folder_space(const std::string& folder) {
  struct statvfs space = {};
  struct statfs kind = {};
  if (statvfs(folder.c_str(), &space) != 0 || statfs(folder.c_str(), &kind) != 0) {
    throw_storage_error(errno, "cannot examine the file system of " + folder);
  }
  FolderSpace result{.free_bytes = std::uint64_t{space.f_bavail} * space.f_frsize,
                     .total_bytes = std::uint64_t{space.f_blocks} * space.f_frsize};
  result.file_system = file_system_kind(static_cast<std::uint32_t>(kind.f_type)).name;
  return result;
}

}  // namespace cairn
