#include "io/files/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

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

}  // namespace cairn
