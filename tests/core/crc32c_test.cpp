#include "core/hash/crc32c.h"

#include <gtest/gtest.h>

#include <string>

#include "testing/pattern.h"

namespace cairn {
namespace {

TEST(Crc32cTest, IsCastagnolis) {
  EXPECT_EQ(crc32c(as_bytes("")), 0U);
  EXPECT_EQ(crc32c(as_bytes("123456789")), 0xE3069283U);  // the catalogue's check value
  // RFC 3720, B.4: 32 bytes of zeros, and of ones.
  EXPECT_EQ(crc32c(as_bytes(std::string(32, '\0'))), 0x8A9136AAU);
  EXPECT_EQ(crc32c(as_bytes(std::string(32, '\xFF'))), 0x62A8AB43U);
}

TEST(Crc32cTest, PartsMakeTheWhole) {
  const std::string text = testing::pattern(1000);
  const std::uint32_t whole = crc32c(as_bytes(text));
  for (const std::size_t cut : {0, 1, 7, 16, 500, 999, 1000}) {
    const std::uint32_t first = crc32c(as_bytes(text.substr(0, cut)));
    const std::uint32_t second = crc32c(as_bytes(text.substr(cut)));
    EXPECT_EQ(crc32c(as_bytes(text.substr(cut)), first), whole) << cut;
    EXPECT_EQ(crc32c_joined(first, second, text.size() - cut), whole) << cut;
  }
}

}  // namespace
}  // namespace cairn
