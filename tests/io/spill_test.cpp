#include "io/spill.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "cairn/error.h"

#include "testing/temp_folder.h"

namespace cairn {
namespace {

SharedBytes made_of(std::uint64_t size, const std::string& folder) {
  return spill(size, folder, [size](ByteSink& sink) {
    const std::string piece(size / 2, 'x');
    sink.write(as_bytes(piece));
    sink.write(as_bytes(std::string(size - piece.size(), 'y')));
  });
}

TEST(SpillTest, FewBytesAreMadeInMemory) {
  const SharedBytes bytes = made_of(5, "/no/such/folder");
  EXPECT_EQ(as_text(bytes.view), "xxyyy");
  EXPECT_EQ(bytes.release_pages, nullptr);
  EXPECT_EQ(made_of(kMostBytesInMemory, "/no/such/folder").view.size(), kMostBytesInMemory);
}

TEST(SpillTest, ManyBytesAreMadeInAScratchFile) {
  const testing::TempFolder temp;
  const SharedBytes bytes = made_of(kMostBytesInMemory + 1, temp.path());
  ASSERT_EQ(bytes.view.size(), kMostBytesInMemory + 1);
  EXPECT_NE(bytes.release_pages, nullptr);
  EXPECT_EQ(bytes.view.front(), std::byte{'x'});
  EXPECT_EQ(bytes.view.back(), std::byte{'y'});
  EXPECT_TRUE(std::filesystem::is_empty(temp.path()));
  EXPECT_THROW(made_of(kMostBytesInMemory + 1, "/no/such/folder"), StorageError);
}

TEST(SpillTest, ThrowsWhatTheMakerThrows) {
  const auto fails = [](ByteSink& /*sink*/) { throw CorruptError("no more"); };
  EXPECT_THROW(spill(1, "", fails), CorruptError);
}

}  // namespace
}  // namespace cairn
