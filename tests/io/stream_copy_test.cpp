#include "io/stream_copy.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace cairn
