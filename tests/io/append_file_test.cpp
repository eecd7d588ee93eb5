#include "io/files/append_file.h"

#include <gtest/gtest.h>

#include "cairn/error.h"

#include "testing/temp_folder.h"

namespace cairn {
namespace {

using testing::read_file;
using testing::TempFolder;
using testing::write_file;

TEST(AppendFileTest, ContinuesWhatIsThere) {
  const TempFolder folder;
  const std::string path = folder / "new/folder/log";
  AppendFile(path).append("a\n");
  AppendFile(path).append("b\n");
  EXPECT_EQ(read_file(path), "a\nb\n");
}

TEST(AppendFileTest, BeginsAFreshLineAfterATornOne) {
  const TempFolder folder;
  write_file(folder / "log", "a\nto");
  AppendFile(folder / "log").append("b\n");
  EXPECT_EQ(read_file(folder / "log"), "a\nto\nb\n");
}

TEST(AppendFileTest, TruncatesWhenAsked) {
  const TempFolder folder;
  write_file(folder / "log", "old");
  AppendFile(folder / "log", /*truncate=*/true).append("new\n");
  EXPECT_EQ(read_file(folder / "log"), "new\n");
}

TEST(AppendFileTest, FolderInItsPlaceIsAnError) {
  const TempFolder folder;
  EXPECT_THROW(AppendFile(folder.path()), StorageError);
}

}  // namespace
}  // namespace cairn
