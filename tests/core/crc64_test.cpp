#include "core/hash/crc64.h"

#include <gtest/gtest.h>

#include <string>

namespace cairn {
namespace {

TEST(Crc64Test, IsNvmes) {
  EXPECT_EQ(crc64_nvme(as_bytes("")), 0U);
  EXPECT_EQ(crc64_nvme(as_bytes("123456789")), 0xAE8B14860A799888U);  // the catalogue's check value
  // The NVM Express specification's examples: 4096 bytes of zeros, and of ones.
  EXPECT_EQ(crc64_nvme(as_bytes(std::string(4096, '\0'))), 0x6482D367EB22B64EU);
  EXPECT_EQ(crc64_nvme(as_bytes(std::string(4096, '\xFF'))), 0xC0DDBA7302ECA3ACU);
}

TEST(Crc64Test, PartsMakeTheWhole) {
  std::string text;
  for (int i = 0; i < 1000; ++i) {
    text += static_cast<char>(i * 31 + i / 7);
  }
  const std::uint64_t whole = crc64_nvme(as_bytes(text));
  for (const std::size_t cut : {0, 1, 7, 16, 500, 999, 1000}) {
    const std::uint64_t first = crc64_nvme(as_bytes(text.substr(0, cut)));
    const std::uint64_t second = crc64_nvme(as_bytes(text.substr(cut)));
    EXPECT_EQ(crc64_nvme(as_bytes(text.substr(cut)), first), whole) << cut;
    EXPECT_EQ(crc64_nvme_joined(first, second, text.size() - cut), whole) << cut;
  }
}

}  // namespace
}  // namespace cairn
