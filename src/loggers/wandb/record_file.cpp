#include "loggers/wandb/record_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "cairn/error.h"

#include "core/hash/crc32.h"
#include "io/file.h"
#include "io/file_error.h"
#include "io/file_size_limit.h"

namespace cairn::wandb {
namespace {

constexpr std::size_t kBlock = 32768;
constexpr std::size_t kHeader = 7;
constexpr std::string_view kBegin("\x3aW&B\xe1\xbe\0", kHeader);

enum class Part : std::uint8_t { kWhole = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

void append_part(std::string& out, Part part, std::string_view data) {
  const auto type = static_cast<std::byte>(part);
  append_little_endian(out, crc32(as_bytes(data), crc32({&type, 1})));
  append_little_endian(out, static_cast<std::uint16_t>(data.size()));
  out += static_cast<char>(part);
  out += data;
}

// The bytes of a message that begins at `offset` of the file.
std::string framed(std::string_view message, std::uint64_t offset) {
  std::string out;
  bool is_first = true;
  do {
    std::size_t room = kBlock - (offset + out.size()) % kBlock;
    if (room < kHeader) {
      out.append(room, '\0');
      room = kBlock;
    }
    const std::string_view data = message.substr(0, room - kHeader);
    message.remove_prefix(data.size());
    const bool is_last = message.empty();
    const Part begun = is_last ? Part::kWhole : Part::kFirst;
    const Part continued = is_last ? Part::kLast : Part::kMiddle;
    append_part(out, is_first ? begun : continued, data);
    is_first = false;
  } while (!message.empty());
  return out;
}

FileDescriptor open_file(const std::string& path, int flags) {
  ignore_file_size_signal();
  FileDescriptor file(open(path.c_str(), flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file.is_open()) throw_storage_error(errno, "cannot open " + path);
  return file;
}

}  // namespace

RecordFile::RecordFile(std::string path) : path_(std::move(path)) {
  posix_file_system().make_folders(parent_path(path_));
  file_ = open_file(path_, O_CREAT | O_EXCL);
  append(kBegin);
}

RecordFile::RecordFile(std::string path, const RecordPosition& position)
    : path_(std::move(path)), file_(open_file(path_, 0)), position_(position) {
  std::string begin(kBegin.size(), '\0');
  if (pread(file_.get(), begin.data(), begin.size(), 0) != std::ssize(begin) || begin != kBegin) {
    throw CorruptError(path_ + " is no file of W&B's records", path_);
  }
  struct stat info = {};
  if (fstat(file_.get(), &info) != 0) throw_storage_error(errno, "cannot read " + path_);
  if (static_cast<std::uint64_t>(info.st_size) < position.bytes) {
    throw CorruptError(fmt::format("{} has {} bytes, and had {} when the checkpoint was saved",
                                   path_, info.st_size, position.bytes),
                       path_);
  }
  const auto end = static_cast<off_t>(position.bytes);
  if (ftruncate(file_.get(), end) != 0) throw_storage_error(errno, "cannot continue " + path_);
}

// What a failed call has written is overwritten by the next one.
void RecordFile::append(std::string_view bytes) {
  const int error = write_all_at(file_.get(), as_bytes(bytes), position_.bytes);
  if (error != 0) throw_storage_error(error, "cannot write to " + path_);
  position_.bytes += bytes.size();
}

void RecordFile::write(int field, const ProtoMessage& record) {
  constexpr int kNumber = 1;
  const ProtoMessage whole =
      ProtoMessage().integer(kNumber, position_.records + 1).message(field, record);
  append(framed(whole.bytes(), position_.bytes));
  ++position_.records;
}

}  // namespace cairn::wandb
