#include "core/hash/crc_folding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/hash/sliced_crc.h"
#include "testing/pattern.h"

namespace cairn {
namespace {

using Nvme = SlicedCrc<std::uint64_t, 0x9A6C9329AC4BC9B5>;
using Zip = SlicedCrc<std::uint32_t, 0xEDB88320>;

// The folds that this processor supports; possibly none.
std::vector<CrcFold> folds() {
  std::vector<CrcFold> all;
  for (const CrcFold fold : {CrcFold::k64, CrcFold::k256}) {
    if (fold <= best_crc_fold()) all.push_back(fold);
  }
  return all;
}

// Sizes around the sizes at which another loop of the code begins.
std::vector<std::size_t> sizes() {
  std::vector<std::size_t> all = {0, 1, 63, 1000, 4096, 4990};
  for (std::size_t line = 64; line <= 1024; line += 64) {
    for (const std::size_t more : {0, 1, 17, 63})
      all.push_back(line + more);
  }
  return all;
}

TEST(CrcFoldingTest, IsWhatTablesSay) {
  const std::string text = testing::pattern(5000);
  for (const CrcFold fold : folds()) {
    for (const std::size_t size : sizes()) {
      const ByteView bytes = as_bytes(text).subspan(size % 7, size);
      EXPECT_EQ(Nvme::of(bytes, 12345, fold), Nvme::of(bytes, 12345, CrcFold::kNone)) << size;
      EXPECT_EQ(Zip::of(bytes, 12345, fold), Zip::of(bytes, 12345, CrcFold::kNone)) << size;
    }
  }
}

TEST(CrcFoldingTest, CopiesWhatItFoldsAndNothingElse) {
  const std::string text = testing::pattern(5000);
  for (const CrcFold fold : folds()) {
    for (const std::size_t any_size : sizes()) {
      const std::size_t size = any_size / 64 * 64;
      const ByteView bytes = as_bytes(text).subspan(any_size % 7, size);
      alignas(64) std::array<std::byte, 5120> to;
      to.fill(std::byte{0xee});
      EXPECT_EQ(Zip::of_and_copy(bytes, 12345, to.data(), fold),
                Zip::of(bytes, 12345, CrcFold::kNone))
          << size;
      EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), to.begin())) << size;
      EXPECT_TRUE(std::all_of(to.begin() + static_cast<std::ptrdiff_t>(size), to.end(),
                              [](std::byte byte) { return byte == std::byte{0xee}; }))
          << size;
    }
  }
}

}  // namespace
}  // namespace cairn
