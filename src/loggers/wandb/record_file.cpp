#include "loggers/wandb/record_file.h"

#include <string_view>
#include <utility>

#include "cairn/error.h"

#include "core/hash/crc32.h"
#include "io/file.h"

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

// Throws CorruptError unless the first bytes of the file are exactly the records of `position`. A
// checkpoint may be older than a start that has continued the file in another way.
std::string checked(std::string path, const RecordPosition& position) {
  const auto source = posix_file_system().open(path);
  std::uint64_t at = kBegin.size();
  std::int64_t records = 0;
  while (at < position.bytes) {
    const std::uint64_t room = kBlock - at % kBlock;
    if (room < kHeader) {
      at += room;
      continue;
    }
    if (at + kHeader > source->size()) break;
    const SharedBytes header = source->view(at, kHeader);
    const auto byte = [&header](std::size_t i) {
      return std::to_integer<std::uint64_t>(header.view[i]);
    };
    const auto type = static_cast<Part>(byte(6));
    records += type == Part::kWhole || type == Part::kLast ? 1 : 0;
    at += kHeader + byte(4) + (byte(5) << 8U);
  }
  if (at == position.bytes && records == position.records) return path;
  throw CorruptError(path + " has other records than when the checkpoint was saved", path);
}

}  // namespace

RecordFile::RecordFile(std::string path) : file_(std::move(path), kBegin) {}

RecordFile::RecordFile(std::string path, const RecordPosition& position)
    : file_(checked(std::move(path), position), kBegin, position.bytes),
      records_(position.records) {}

void RecordFile::write(int field, const ProtoMessage& record) {
  constexpr int kNumber = 1;
  const ProtoMessage whole = ProtoMessage().integer(kNumber, records_ + 1).message(field, record);
  file_.append(framed(whole.bytes(), file_.size()));
  ++records_;
}

}  // namespace cairn::wandb
