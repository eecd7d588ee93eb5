#include "io/files/busy_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "io/file.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

TEST(BusyFileTest, AFileThatAWriterOfCairnHasLockedIsBusy) {
  const testing::TempFolder folder;
  const std::string path = folder / "f";
  auto file = posix_file_system().create(path, {.lock = true});
  EXPECT_TRUE(is_being_written(path));
  file.reset();
  EXPECT_FALSE(is_being_written(path));
}

TEST(BusyFileTest, AFileThatIsOpenForWritingIsBusy) {
  const testing::TempFolder folder;
  const std::string path = folder / "f";
  std::ofstream file(path);
  if (!is_being_written(path)) GTEST_SKIP() << "this file system knows no leases";
  file.close();
  EXPECT_FALSE(is_being_written(path));
  const std::ifstream reader(path);
  EXPECT_FALSE(is_being_written(path));
}

TEST(BusyFileTest, WhatIsNoFileIsNotBusy) {
  const testing::TempFolder folder;
  EXPECT_FALSE(is_being_written(folder.path()));
  EXPECT_FALSE(is_being_written(folder / "missing"));
}

}  // namespace
}  // namespace cairn
