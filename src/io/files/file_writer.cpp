#include "io/files/file_writer.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "io/file_error.h"

namespace cairn {

void FailingOnce::check(int error) {
  if (error_ == 0 && !fd_.is_open()) error = EBADF;
  if (error_ == 0) error_ = error;
  if (error_ != 0) throw_storage_error(error_, "cannot write " + path_);
}

void FailingOnce::sync(std::uint64_t end) {
  check(0);
  struct stat info = {};
  int result = fstat(fd_.get(), &info);
  if (result == 0 && static_cast<std::uint64_t>(info.st_size) > end) {  // the file was overwritten
    do {
      result = ftruncate(fd_.get(), static_cast<off_t>(end));
    } while (result != 0 && errno == EINTR);
  }
  check(result == 0 ? 0 : errno);
  do {
    result = fdatasync(fd_.get());
  } while (result != 0 && errno == EINTR);
  check(result == 0 ? 0 : errno);
}

void FailingOnce::close() {
  const int error = fd_.close();
  if (error != 0) {
    if (error_ == 0) error_ = error;
    throw_storage_error(error, "cannot finish writing " + path_);
  }
}

namespace {

class SmallFileWriter final : public WritableFile {
 public:
  SmallFileWriter(FileDescriptor fd, std::string path) : file_(std::move(fd), std::move(path)) {
    buffer_.reserve(kBufferBytes);
  }

  void write(ByteView bytes) override {
    file_.check(0);
    end_ += bytes.size();
    if (buffer_.size() + bytes.size() > kBufferBytes) flush();
    if (bytes.size() >= kBufferBytes) {
      file_.check(write_all(file_.fd(), bytes));
    } else {
      buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    }
  }

  void sync() override {
    flush();
    file_.sync(end_);
  }

  void close() override {
    if (closed_) return;
    closed_ = true;
    if (!file_.failed()) flush();
    file_.close();
  }

 private:
  static constexpr std::size_t kBufferBytes = std::size_t{256} << 10;

  void flush() {
    const int error = write_all(file_.fd(), buffer_);
    buffer_.clear();
    file_.check(error);
  }

  FailingOnce file_;
  std::vector<std::byte> buffer_;
  std::uint64_t end_ = 0;  // of the bytes that were written
  bool closed_ = false;
};

}  // namespace

std::unique_ptr<WritableFile> make_small_file_writer(FileDescriptor fd, std::string path) {
  return std::make_unique<SmallFileWriter>(std::move(fd), std::move(path));
}

}  // namespace cairn
