#include "loggers/wandb/datastore.h"

#include <algorithm>

#include "core/hash/crc32.h"
#include "core/little_endian.h"

namespace cairn {
namespace {

constexpr std::size_t kWandbBlock = 32768;
constexpr std::size_t kWandbHeader = 7;
constexpr std::uint16_t kWandbMagic = 0xBEE1;

enum class PartType : char { kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

PartType part_type(bool is_first, bool is_last) {
  if (is_first) return is_last ? PartType::kFull : PartType::kFirst;
  return is_last ? PartType::kLast : PartType::kMiddle;
}

void append_part(std::string& out, PartType type, std::string_view data) {
  const std::string typed = std::string(1, static_cast<char>(type)).append(data);
  append_little_endian(out, crc32(as_bytes(typed)));
  append_little_endian(out, static_cast<std::uint16_t>(data.size()));
  out += typed;
}

}  // namespace

WandbFile::WandbFile(std::string path) : path_(std::move(path)), file_(path_) {
  std::string header = ":W&B";
  append_little_endian(header, kWandbMagic);
  header += '\0';
  file_.append(header);
  bytes_ = header.size();
}

void WandbFile::append(const ProtoMessage& record) {
  std::string out;
  std::string_view rest = record.bytes();
  for (bool is_first = true; is_first || !rest.empty(); is_first = false) {
    std::size_t room = kWandbBlock - (bytes_ + out.size()) % kWandbBlock;
    if (room < kWandbHeader) {
      out.append(room, '\0');
      room = kWandbBlock;
    }
    const std::size_t size = std::min(rest.size(), room - kWandbHeader);
    append_part(out, part_type(is_first, size == rest.size()), rest.substr(0, size));
    rest.remove_prefix(size);
  }
  file_.append(out);
  bytes_ += out.size();
}

}  // namespace cairn
