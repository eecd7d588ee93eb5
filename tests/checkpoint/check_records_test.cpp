#include "checkpoint/open/check_records.h"

#include <gtest/gtest.h>
#include <libdeflate.h>

#include <atomic>
#include <string>

namespace cairn {
namespace {

// 40 MiB: enough for several threads, with one record that they share.
TEST(CheckRecordsTest, PiecesOfARecordGiveTheCrcOfTheWhole) {
  std::string content(std::size_t{40} << 20, '\0');
  for (std::size_t i = 0; i < content.size(); i += 97) {
    content[i] = static_cast<char>(i >> 7);
  }
  const SharedBytes file = {as_bytes(content), nullptr};
  const std::vector<FileRecord> records = {
      {.name = "small", .offset = 3, .size = 5},
      {.name = "empty", .offset = 8, .size = 0},
      {.name = "large", .offset = 11, .size = content.size() - 20},
      {.name = "one piece", .offset = 64, .size = 4 << 20},
  };
  std::atomic<std::uint64_t> progress = 0;
  const auto source = source_of(file, "f");
  const auto crcs = crcs_of(
      {.file = *source, .on_progress = [&](std::uint64_t bytes) { progress += bytes; }}, records);
  ASSERT_EQ(crcs.size(), records.size());
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(crcs[i], libdeflate_crc32(0, content.data() + records[i].offset, records[i].size))
        << records[i].name;
    bytes += records[i].size;
  }
  EXPECT_EQ(progress, bytes);
}

TEST(CheckRecordsTest, MemoryIsGivenBackAsItGoes) {
  static std::atomic<std::uint64_t> released;
  released = 0;
  const std::string content(10 << 20, 'x');
  const SharedBytes file = {as_bytes(content), nullptr,
                            [](ByteView part, const void*) { released += part.size(); }};
  const auto source = source_of(file, "f");
  crcs_of({.file = *source}, {{.name = "all", .offset = 0, .size = content.size()}});
  EXPECT_EQ(released, content.size());
}

}  // namespace
}  // namespace cairn
