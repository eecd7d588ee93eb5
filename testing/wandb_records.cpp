#include "testing/wandb_records.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "core/hash/crc32.h"
#include "testing/temp_folder.h"

namespace cairn::testing {

std::vector<std::string> wandb_messages(const std::string& bytes) {
  constexpr std::size_t kBlock = 32768;
  constexpr std::size_t kHeader = 7;
  EXPECT_EQ(bytes.substr(0, kHeader), std::string(":W&B\xe1\xbe\0", kHeader));
  std::vector<std::string> messages;
  bool is_open = false;
  for (std::size_t at = kHeader; at < bytes.size();) {
    const std::size_t room = kBlock - at % kBlock;
    if (room < kHeader) {
      EXPECT_EQ(bytes.substr(at, room), std::string(room, '\0'));
      at += room;
      continue;
    }
    std::uint32_t crc = 0;
    std::uint16_t size = 0;
    std::memcpy(&crc, bytes.data() + at, sizeof(crc));
    std::memcpy(&size, bytes.data() + at + 4, sizeof(size));
    const int type = bytes[at + 6];
    EXPECT_LE(kHeader + size, room) << "a record crosses the end of a block";
    EXPECT_LE(at + kHeader + size, bytes.size()) << "a torn record";
    EXPECT_EQ(crc32(as_bytes(bytes).subspan(at + 6, size + 1U)), crc) << "record at byte " << at;
    const bool begins = type == 1 || type == 2;
    EXPECT_EQ(is_open, !begins) << "type " << type;
    if (begins) messages.emplace_back();
    messages.back() += bytes.substr(at + kHeader, size);
    is_open = type == 2 || type == 3;
    at += kHeader + size;
  }
  EXPECT_FALSE(is_open) << "the last message has no end";
  return messages;
}

std::vector<ProtoFields> wandb_records(const std::string& path) {
  std::vector<ProtoFields> records;
  for (const std::string& message : wandb_messages(read_file(path)))
    records.push_back(proto_fields(message));
  return records;
}

}  // namespace cairn::testing
