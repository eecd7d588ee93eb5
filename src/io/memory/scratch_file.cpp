#include "io/memory/scratch_file.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "core/environment.h"
#include "io/file_error.h"
#include "io/file_size_limit.h"
#include "io/memory/mapped_file.h"

namespace cairn {
namespace {

constexpr std::size_t kScratchBufferBytes = std::size_t{256} << 10;

// Without O_TMPFILE (some network file systems), creates a file and removes its name at once.
int open_unnamed(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
  std::string name = folder + "/cairn-scratch-XXXXXX";
  const int named = mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) unlink(name.c_str());
  return named;
}

}  // namespace

std::string temporary_folder(const std::string& folder) {
  if (!folder.empty()) return folder;
  const std::string chosen = environment("TMPDIR");
  return chosen.empty() ? "/var/tmp" : chosen;
}

std::string shown_temporary_folder(const std::string& folder) {
  const std::string where = temporary_folder(folder);
  if (!folder.empty()) return where;
  return where + (environment("TMPDIR").empty()
                      ? " (set TMPDIR to a folder that can be written to)"
                      : " (TMPDIR names it: set it to a folder that can be written to)");
}

FileDescriptor open_scratch(const std::string& folder) {
  FileDescriptor fd(open_unnamed(temporary_folder(folder)));
  if (!fd.is_open()) {
    throw_storage_error(errno, "cannot create a scratch file in " + shown_temporary_folder(folder));
  }
  return fd;
}

ScratchFile::ScratchFile(const std::string& folder) : folder_(temporary_folder(folder)) {
  ignore_file_size_signal();
  fd_ = open_scratch(folder);
  buffer_.reserve(kScratchBufferBytes);
}

void ScratchFile::write(ByteView bytes) {
  if (buffer_.size() + bytes.size() > kScratchBufferBytes) flush();
  if (bytes.size() >= kScratchBufferBytes) {
    write_at(size_, bytes);
    return;
  }
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  size_ += bytes.size();
}

void ScratchFile::write_at(std::uint64_t offset, ByteView bytes) {
  flush();
  const int error = write_all_at(fd_.get(), bytes, offset);
  if (error != 0) throw_storage_error(error, "cannot write to a scratch file in " + folder_);
  size_ = std::max(size_, offset + bytes.size());
}

std::uint64_t ScratchFile::available() const {
  struct statvfs info = {};
  if (fstatvfs(fd_.get(), &info) != 0) {
    throw_storage_error(errno, "cannot ask for the free space of " + folder_);
  }
  return std::uint64_t{info.f_bavail} * info.f_frsize;
}

SharedBytes ScratchFile::map() {
  flush();
  return map_descriptor(fd_.get(), size_, "a scratch file in " + folder_);
}

void ScratchFile::flush() {
  if (buffer_.empty()) return;
  const int error = write_all_at(fd_.get(), buffer_, size_ - buffer_.size());
  if (error != 0) throw_storage_error(error, "cannot write to a scratch file in " + folder_);
  buffer_.clear();
}

}  // namespace cairn
