#include "storage/local/removal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "cairn/error.h"

#include "testing/faulty_file_system.h"
#include "testing/sim_file_system.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::SimFileSystem;

void write(FileSystem& files, const std::string& path) {
  auto file = files.create(path, {});
  file->write(as_bytes("bytes"));
  file->sync();
  files.sync_folder(parent_path(path));
}

// A checkpoint that is a folder with a subfolder, and a checkpoint that is a file.
std::unique_ptr<SimFileSystem> disk() {
  auto files = std::make_unique<SimFileSystem>();
  files->make_folders("/run/ck/inside");
  for (const char* path :
       {"/run/ck/.metadata", "/run/ck/__0_0.distcp", "/run/ck/inside/optim.pt"}) {
    write(*files, path);
  }
  files->make_link("../ck.pt", "/run/ck/inside/link");
  files->sync_folder("/run/ck/inside");
  write(*files, "/run/ck.pt");
  return files;
}

std::vector<std::string> names_in(FileSystem& files, const std::string& folder) {
  return files.stat(folder) ? files.list(folder) : std::vector<std::string>{};
}

TEST(RemovalTest, FilesAndFoldersGoWithAllThatIsInThem) {
  const auto files = disk();
  remove_folder(*files, "/run/ck");
  EXPECT_THAT(files->list("/run"), ElementsAre("ck.pt"));  // A link in the folder pointed there.
  EXPECT_TRUE(remove_file(*files, "/run/ck.pt"));
  EXPECT_FALSE(remove_file(*files, "/run/ck.pt"));
  EXPECT_THAT(files->list("/run"), IsEmpty());
}

TEST(RemovalTest, WhatIsLockedStays) {
  SimFileSystem files;
  const auto file = files.create("/f.pt", {.lock = true});
  EXPECT_FALSE(remove_file(files, "/f.pt"));
  EXPECT_THAT(files.list("/"), ElementsAre("f.pt"));
}

TEST(RemovalTest, ARemovalThatWasReportedSurvivesAPowerCut) {
  for (const char* path : {"/run/ck", "/run/ck.pt"}) {
    const auto files = disk();
    if (files->stat(path, false)->type == FileInfo::Type::kFolder) {
      remove_folder(*files, path);
    } else {
      EXPECT_TRUE(remove_file(*files, path));
    }
    for (const auto& after : files->after_power_loss()) {
      EXPECT_FALSE(after->stat(path, false).has_value()) << after->describe();
    }
  }
}

TEST(RemovalTest, AfterACrashAnywhereAFolderIsWholeOrGoneAndCanBeFinished) {
  const std::vector<std::string> whole = {".metadata", "__0_0.distcp", "inside"};
  const auto counted = disk();
  const std::uint64_t before = counted->operations();
  remove_folder(*counted, "/run/ck");
  int leftovers = 0;
  for (std::uint64_t at = before + 1; at <= counted->operations(); ++at) {
    const auto files = disk();
    files->crash_at(at);
    EXPECT_THROW(remove_folder(*files, "/run/ck"), testing::SimulatedCrash);
    auto disks = files->after_power_loss();
    disks.push_back(files->after_kill());
    for (const auto& after : disks) {
      const auto left = names_in(*after, "/run/ck");
      EXPECT_TRUE(left.empty() || left == whole) << after->describe();
      const auto finished = finish_removals(*after, "/run");
      leftovers += static_cast<int>(finished.size());
      for (const std::string& name : after->list("/run")) {
        EXPECT_FALSE(is_being_removed(name)) << after->describe();
      }
    }
  }
  EXPECT_GT(leftovers, 0);
}

// The process died between the rename and its sync. Then the machine died while the next process
// finished the removal.
TEST(RemovalTest, ARemovalThatAnotherProcessFinishesIsWholeOrGoneToo) {
  const std::vector<std::string> whole = {".metadata", "__0_0.distcp", "inside"};
  bool is_done = false;
  for (std::uint64_t more = 1; !is_done; ++more) {
    const auto files = disk();
    testing::FaultyFileSystem faulty(*files);
    faulty.fail(testing::FileCall::kSyncFolder, 1, EIO);
    EXPECT_THROW(remove_folder(faulty, "/run/ck"), StorageError);
    files->crash_at(files->operations() + more);
    try {
      finish_removals(*files, "/run");
      is_done = true;
    } catch (const testing::SimulatedCrash&) {
    }
    for (const auto& after : files->after_power_loss()) {
      const auto left = names_in(*after, "/run/ck");
      EXPECT_TRUE(left.empty() || left == whole) << after->describe();
    }
  }
}

}  // namespace
}  // namespace cairn
