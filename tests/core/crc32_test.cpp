#include "core/crc32.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "testing/pattern.h"

namespace cairn {
namespace {

TEST(Crc32Test, IsThatOfZip) {
  EXPECT_EQ(crc32(as_bytes("")), 0U);
  EXPECT_EQ(crc32(as_bytes("123456789")), 0xCBF43926U);  // the catalogue's check value
}

// Short ones go through the cache, long ones past it: whatever the places and the lengths are.
TEST(Crc32Test, CopyingGivesTheSameChecksumAndAllBytesAndNoOthers) {
  constexpr std::size_t kLarge = 70'000;
  const std::string text = testing::pattern(kLarge + 200);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{64},
                                 std::size_t{16'385}, std::size_t{32'767}, std::size_t{32'768},
                                 std::size_t{32'769}, std::size_t{32'832}, kLarge}) {
    for (std::size_t shift = 0; shift < 70; shift += 3) {
      const ByteView from = as_bytes(text).subspan(2 * shift % 67, size);
      std::vector<std::byte> to(kLarge + 200, std::byte{0xee});
      EXPECT_EQ(crc32_and_copy(to.data() + shift, from, 0), crc32(from))
          << "size " << size << " shift " << shift;
      ASSERT_TRUE(std::equal(from.begin(), from.end(), to.data() + shift))
          << "size " << size << " shift " << shift;
      const auto untouched = std::count(to.begin(), to.begin() + shift, std::byte{0xee}) +
                             std::count(to.begin() + shift + size, to.end(), std::byte{0xee});
      ASSERT_EQ(static_cast<std::size_t>(untouched), to.size() - size)
          << "size " << size << " shift " << shift;
    }
  }
}

TEST(Crc32Test, CopyingInPartsGoesOnWithTheChecksum) {
  const std::string text = testing::pattern(150'000);
  const std::uint32_t whole = crc32(as_bytes(text));
  for (const std::size_t cut : {0, 1, 40'000, 70'001, 149'999, 150'000}) {
    std::vector<std::byte> to(text.size());
    const std::uint32_t first = crc32_and_copy(to.data(), as_bytes(text).first(cut), 0);
    EXPECT_EQ(crc32_and_copy(to.data() + cut, as_bytes(text).subspan(cut), first), whole) << cut;
    EXPECT_EQ(as_text(to), text) << cut;
    const std::uint32_t second = crc32(as_bytes(text).subspan(cut));
    EXPECT_EQ(crc32_joined(first, second, text.size() - cut), whole) << cut;
  }
}

}  // namespace
}  // namespace cairn
