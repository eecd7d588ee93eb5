#include "io/files/private_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "cairn/error.h"

#include "testing/environment_variable.h"
#include "testing/message_of.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

TEST(PrivateFolderTest, IsForThisUserAndGoneWithWhatIsInIt) {
  const testing::TempFolder temp;
  {
    const PrivateFolder folder("copy", temp.path());
    struct stat info = {};
    ASSERT_EQ(stat(folder.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0700U);
    fs::create_directories(folder.path() + "/ep1-ba10");
    std::ofstream(folder.path() + "/ep1-ba10/.metadata") << "x";
  }
  EXPECT_TRUE(fs::is_empty(temp.path()));
}

TEST(PrivateFolderTest, WhatAKilledProcessLeftIsRemovedAndNothingElse) {
  const testing::TempFolder temp;
  fs::create_directories(temp / "copy-killed/inside");
  fs::create_directories(temp / "copybook");
  std::ofstream(temp / "copy-file") << "x";
  std::optional<PrivateFolder> lives(std::in_place, "copy", temp.path());
  const PrivateFolder second("copy", temp.path());
  EXPECT_FALSE(fs::exists(temp / "copy-killed"));
  EXPECT_TRUE(fs::exists(temp / "copybook"));
  EXPECT_TRUE(fs::exists(temp / "copy-file"));
  EXPECT_TRUE(fs::exists(lives->path()));
}

TEST(PrivateFolderTest, SaysWhereItCouldNotBe) {
  EXPECT_THROW(PrivateFolder("copy", "/no/such/folder"), StorageError);
  const testing::EnvironmentVariable folder("TMPDIR", "/no/such/folder");
  EXPECT_THAT(testing::message_of<StorageError>([] { PrivateFolder made("copy", ""); }),
              ::testing::HasSubstr("in /no/such/folder (TMPDIR names it: set it to a folder"));
}

}  // namespace
}  // namespace cairn
