#include "io/bytes/stream_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace cairn {
namespace {

TEST(StreamCopyTest, CopiesAllBytesAndNoOthersAtAnyAlignment) {
  constexpr std::size_t kLarge = 70'000;
  std::vector<std::byte> from(kLarge + 200);
  for (std::size_t i = 0; i < from.size(); ++i) {
    from[i] = static_cast<std::byte>(i * 131 >> 3);
  }
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{2048}, std::size_t{2113}, kLarge}) {
    for (std::size_t shift = 0; shift < 70; shift += 3) {
      std::vector<std::byte> to(kLarge + 200, std::byte{0xee});
      stream_copy(to.data() + shift, from.data() + 2 * shift % 67, size);
      for (std::size_t i = 0; i < to.size(); ++i) {
        const bool inside = i >= shift && i < shift + size;
        ASSERT_EQ(to[i], inside ? from[i - shift + 2 * shift % 67] : std::byte{0xee})
            << "size " << size << " shift " << shift << " at " << i;
      }
    }
  }
}

TEST(StreamCopyTest, PiecesInAnyOrderWithAnyGapsBetweenThem) {
  std::vector<std::byte> from(60'000);
  for (std::size_t i = 0; i < from.size(); ++i) {
    from[i] = static_cast<std::byte>(i * 37 >> 2);
  }
  std::vector<std::byte> to(from.size());
  const auto copy_and_compare = [&](std::size_t at, std::size_t size) {
    stream_copy_unfenced(to.data() + at, from.data() + at, size);
    return std::equal(to.data() + at, to.data() + at + size, from.data() + at);
  };
  for (const std::size_t size : {std::size_t{0}, std::size_t{40}, std::size_t{5000}}) {
    for (const std::size_t at : {0, 5000, 10'001, 15'700, 22'748, 22'000, 50'000, 0, 55'000}) {
      EXPECT_TRUE(copy_and_compare(at, size)) << "size " << size << " at " << at;
    }
  }
}

}  // namespace
}  // namespace cairn
