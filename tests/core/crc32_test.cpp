#include "core/hash/crc32.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "testing/pattern.h"

namespace cairn {
namespace {

TEST(Crc32Test, IsThatOfZip) {
  EXPECT_EQ(crc32(as_bytes("")), 0U);
  EXPECT_EQ(crc32(as_bytes("123456789")), 0xCBF43926U);  // the catalogue's check value
}

TEST(Crc32Test, CopyingGivesTheChecksumOfWhatStandsThere) {
  const std::string text = testing::pattern(50'000);
  for (const std::size_t size : {0, 1, 16'383, 16'384, 16'385, 50'000}) {
    const ByteView from = as_bytes(text).first(size);
    std::vector<std::byte> to(size);
    EXPECT_EQ(crc32_and_copy(to.data(), from, 0), crc32(from)) << size;
    EXPECT_EQ(as_text(to), std::string_view(text).substr(0, size));
  }
  alignas(64) std::array<std::byte, 4096> lines;  // past the cache
  EXPECT_EQ(crc32_and_copy_lines(lines.data(), as_bytes(text).first(4096), 0),
            crc32(as_bytes(text).first(4096)));
  EXPECT_EQ(as_text(lines), std::string_view(text).substr(0, 4096));
}

TEST(Crc32Test, GoesOnWithTheChecksumOfWhatCameBefore) {
  const std::string text = testing::pattern(150'000);
  const std::uint32_t whole = crc32(as_bytes(text));
  for (const std::size_t cut : {0, 1, 40'000, 70'001, 149'999, 150'000}) {
    const std::uint32_t first = crc32(as_bytes(text).first(cut));
    EXPECT_EQ(crc32(as_bytes(text).subspan(cut), first), whole) << cut;
    const std::uint32_t second = crc32(as_bytes(text).subspan(cut));
    EXPECT_EQ(crc32_joined(first, second, text.size() - cut), whole) << cut;
  }
}

}  // namespace
}  // namespace cairn
