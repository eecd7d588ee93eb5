#include "io/files/append_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>

#include "cairn/error.h"

#include "io/file.h"
#include "io/file_error.h"
#include "io/file_size_limit.h"

namespace cairn {
namespace {

bool ends_inside_a_line(int fd) {
  const off_t size = lseek(fd, 0, SEEK_END);
  char last = '\n';
  return size > 0 && pread(fd, &last, 1, size - 1) == 1 && last != '\n';
}

FileDescriptor open_to_continue(const std::string& path, int flags) {
  ignore_file_size_signal();
  FileDescriptor file(open(path.c_str(), flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file.is_open()) throw_storage_error(errno, "cannot open " + path);
  return file;
}

std::uint64_t size_of(const FileDescriptor& file, const std::string& path) {
  struct stat info = {};
  if (fstat(file.get(), &info) != 0) throw_storage_error(errno, "cannot read " + path);
  return static_cast<std::uint64_t>(info.st_size);
}

void cut(const FileDescriptor& file, const std::string& path, std::uint64_t size) {
  if (ftruncate(file.get(), static_cast<off_t>(size)) != 0) {
    throw_storage_error(errno, "cannot shorten " + path);
  }
}

}  // namespace

AppendFile::AppendFile(std::string path, bool truncate) : path_(std::move(path)) {
  ignore_file_size_signal();
  posix_file_system().make_folders(parent_path(path_));
  const int flags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | (truncate ? O_TRUNC : 0);
  file_ = FileDescriptor(open(path_.c_str(), flags, 0666));
  if (!file_.is_open()) throw_storage_error(errno, "cannot open " + path_);
  if (ends_inside_a_line(file_.get())) append("\n");
}

void AppendFile::append(std::string_view text) {
  const int error = write_all(file_.get(), as_bytes(text));
  if (error != 0) throw_storage_error(error, "cannot write to " + path_);
}

bool cut_file(const std::string& path, std::uint64_t size) {
  const auto info = posix_file_system().stat(path, /*follow=*/false);
  if (!info || info->type != FileInfo::Type::kRegular) return false;
  const FileDescriptor file = open_to_continue(path, 0);
  if (size_of(file, path) > size) cut(file, path, size);
  return true;
}

ContinuedFile::ContinuedFile(std::string path, std::string_view begin) : path_(std::move(path)) {
  posix_file_system().make_folders(parent_path(path_));
  file_ = open_to_continue(path_, O_CREAT | O_EXCL);
  append(begin);
}

ContinuedFile::ContinuedFile(std::string path, std::string_view begin, std::uint64_t size)
    : path_(std::move(path)), file_(open_to_continue(path_, 0)), size_(size) {
  std::string found(begin.size(), '\0');
  if (pread(file_.get(), found.data(), found.size(), 0) != std::ssize(found) || found != begin) {
    throw CorruptError(path_ + " is another kind of file than the one to be continued", path_);
  }
  const std::uint64_t found_size = size_of(file_, path_);
  if (found_size < size) {
    throw CorruptError(fmt::format("{} has {} bytes, too few to be continued after byte {}", path_,
                                   found_size, size),
                       path_);
  }
  cut(file_, path_, size);
}

// If a call fails, the next one overwrites what it has written.
void ContinuedFile::append(std::string_view bytes) {
  const int error = write_all_at(file_.get(), as_bytes(bytes), size_);
  if (error != 0) throw_storage_error(error, "cannot write to " + path_);
  size_ += bytes.size();
}

}  // namespace cairn
