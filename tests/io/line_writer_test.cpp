#include "io/bytes/line_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/hash/crc32.h"
#include "testing/pattern.h"

namespace cairn {
namespace {

constexpr std::size_t kLine = 64;

// Memory that begins at a cache line.
class Lines {
 public:
  explicit Lines(std::size_t size) : lines_(size / kLine + 1), size_(size) {
    std::fill_n(data(), lines_.size() * kLine, std::byte{0xee});
  }
  std::byte* data() { return lines_.front().bytes.data(); }
  std::string_view text() { return as_text({data(), size_}); }
  bool is_untouched_from(std::size_t at) {
    return std::all_of(data() + at, data() + lines_.size() * kLine,
                       [](std::byte b) { return b == std::byte{0xee}; });
  }

 private:
  struct alignas(kLine) Line {
    std::array<std::byte, kLine> bytes;
  };
  std::vector<Line> lines_;
  std::size_t size_;
};

// Lengths around all limits in the code: whole lines, pieces that are held back, and pieces that
// are written at once.
constexpr std::array<std::size_t, 14> kLengths = {0,   1,   40,  63,   64,   65,   100,
                                                  511, 512, 513, 4095, 4096, 4097, 20'000};

TEST(LineWriterTest, PiecesOfAnyLengthsStandOneBehindTheOther) {
  const std::string text = testing::pattern(100'000);
  for (const std::size_t first : kLengths) {
    for (const std::size_t second : kLengths) {
      for (const std::size_t third : kLengths) {
        const std::size_t size = first + second + third;
        Lines to(size);
        LineWriter writer;
        writer.begin(to.data());
        writer.write(as_bytes(text).first(first));
        const ByteView middle = as_bytes(text).subspan(first, second);
        EXPECT_EQ(writer.write_with_crc32(middle, 0), crc32(middle));
        writer.write(as_bytes(text).subspan(first + second, third));
        writer.finish();
        ASSERT_EQ(to.text(), std::string_view(text).substr(0, size))
            << first << ", " << second << ", " << third;
        ASSERT_TRUE(to.is_untouched_from(size)) << first << ", " << second << ", " << third;
      }
    }
  }
}

TEST(LineWriterTest, TheChecksumIsOfAllPiecesBefore) {
  const std::string text = testing::pattern(90'000);
  Lines to(text.size());
  LineWriter writer;
  writer.begin(to.data());
  std::uint32_t crc = 0;
  std::size_t at = 0;
  for (std::size_t piece = 1; at < text.size(); piece = piece * 3 % 9973 + 1) {
    const std::size_t n = std::min(piece, text.size() - at);
    crc = writer.write_with_crc32(as_bytes(text).subspan(at, n), crc);
    at += n;
  }
  writer.finish();
  EXPECT_EQ(crc, crc32(as_bytes(text)));
  EXPECT_EQ(to.text(), text);
}

TEST(LineWriterTest, GoesOnInOtherMemory) {
  const std::string text = testing::pattern(10'000);
  LineWriter writer;
  for (const std::size_t size : {std::size_t{4096}, std::size_t{70}, std::size_t{5000}}) {
    Lines to(size);
    writer.begin(to.data());
    writer.write(as_bytes(text).first(size));
    writer.finish();
    EXPECT_EQ(to.text(), std::string_view(text).substr(0, size));
  }
}

}  // namespace
}  // namespace cairn
