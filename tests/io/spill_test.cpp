#include "io/memory/spill.h"

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
  EXPECT_EQ(made_of(kMaxBytesInMemory, "/no/such/folder").view.size(), kMaxBytesInMemory);
}

TEST(SpillTest, ManyBytesAreMadeInAScratchFile) {
  const testing::TempFolder temp;
  const SharedBytes bytes = made_of(kMaxBytesInMemory + 1, temp.path());
  ASSERT_EQ(bytes.view.size(), kMaxBytesInMemory + 1);
  EXPECT_NE(bytes.release_pages, nullptr);
  EXPECT_EQ(bytes.view.front(), std::byte{'x'});
  EXPECT_EQ(bytes.view.back(), std::byte{'y'});
  EXPECT_TRUE(std::filesystem::is_empty(temp.path()));
  EXPECT_THROW(made_of(kMaxBytesInMemory + 1, "/no/such/folder"), StorageError);
}

// This is needed for an upload whose writer does not know its size.
TEST(SpillTest, WhatGrowsBeyondTheLimitGoesOnInAScratchFile) {
  const testing::TempFolder temp;
  SpillSink small({.most_in_memory = 5, .scratch_folder = "/no/such/folder"});
  small.write(as_bytes("abc"));
  small.write(as_bytes("de"));
  const SharedBytes in_memory = small.take();
  EXPECT_EQ(as_text(in_memory.view), "abcde");
  EXPECT_EQ(in_memory.release_pages, nullptr);

  SpillSink large({.most_in_memory = 5, .scratch_folder = temp.path()});
  for (const char* piece : {"abc", "de", "f", "ghi"}) {
    large.write(as_bytes(piece));
  }
  const SharedBytes in_file = large.take();
  EXPECT_EQ(as_text(in_file.view), "abcdefghi");
  EXPECT_NE(in_file.release_pages, nullptr);
  EXPECT_EQ(SpillSink({}).take().view.size(), 0U);
}

TEST(SpillTest, ThrowsWhatTheMakerThrows) {
  const auto fails = [](ByteSink& /*sink*/) { throw CorruptError("no more"); };
  EXPECT_THROW(spill(1, "", fails), CorruptError);
}

}  // namespace
}  // namespace cairn
