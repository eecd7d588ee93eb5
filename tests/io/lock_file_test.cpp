// Advisory locks of a file that says which process is at work. A forked child does not hold the
// locks of its parent.
#include "io/files/lock_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "cairn/error.h"

#include "io/durable/atomic_file.h"
#include "io/file.h"
#include "testing/other_process.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using testing::OtherProcess;
using testing::TempFolder;

TEST(LockFileTest, ASecondProcessIsToldTheTextOfTheFirst) {
  const TempFolder folder;
  const std::string path = folder / "lock";
  std::shared_ptr<void> held;
  OtherProcess other([&] { held = posix_file_system().lock_file(path, "it is me").held; });
  const FileLock lock = posix_file_system().lock_file(path, "no, me");
  EXPECT_EQ(lock.held, nullptr);
  EXPECT_TRUE(lock.has_locks);
  EXPECT_EQ(lock.holder, "it is me");
  EXPECT_EQ(testing::read_file(path), "it is me");
}

TEST(LockFileTest, TheStateOfALockIsThatOfItsProcess) {
  const TempFolder folder;
  const std::string path = folder / "lock";
  EXPECT_EQ(state_of_lock(path), LockState::kUnknown);  // there is no file
  std::shared_ptr<void> held;
  OtherProcess other([&] { held = posix_file_system().lock_file(path, "it is me").held; });
  EXPECT_EQ(state_of_lock(path), LockState::kHeld);
  other.kill();
  EXPECT_EQ(state_of_lock(path), LockState::kFree);
  EXPECT_EQ(state_of_lock(path), LockState::kFree);  // asking has changed nothing
  EXPECT_EQ(testing::read_file(path), "it is me");
  fs::create_symlink(path, folder / "link");
  EXPECT_EQ(state_of_lock(folder / "link"), LockState::kUnknown);
  fs::create_directory(folder / "folder");
  EXPECT_EQ(state_of_lock(folder / "folder"), LockState::kUnknown);
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(state_of_lock(folder / "pipe"), LockState::kUnknown);  // nobody writes to it
}

TEST(LockFileTest, WhatAKilledProcessLeftIsTakenOver) {
  const TempFolder folder;
  const std::string path = folder / "lock";
  std::shared_ptr<void> held;
  OtherProcess other([&] { held = posix_file_system().lock_file(path, "a longer text").held; });
  other.kill();
  EXPECT_TRUE(fs::exists(path));
  FileLock lock = posix_file_system().lock_file(path, "me");
  EXPECT_NE(lock.held, nullptr);
  EXPECT_EQ(testing::read_file(path), "me");
  lock.held.reset();
  EXPECT_FALSE(fs::exists(path));
}

TEST(LockFileTest, WhoeverReleasesItRemovesNoFileOfAnother) {
  const TempFolder folder;
  const std::string path = folder / "lock";
  FileLock first = posix_file_system().lock_file(path, "first");
  fs::remove(path);  // as `cairn lock --release` does
  const FileLock second = posix_file_system().lock_file(path, "second");
  EXPECT_NE(second.held, nullptr);
  first.held.reset();
  EXPECT_EQ(testing::read_file(path), "second");
}

TEST(LockFileTest, OfSomethingElseThanAFileNothingIsDone) {
  const TempFolder folder;
  fs::create_directory(folder / "folder");
  fs::create_symlink("missing", folder / "link");
  for (const char* name : {"folder", "link"}) {
    EXPECT_THROW(posix_file_system().lock_file(folder / name, "me"), Error) << name;
  }
  EXPECT_FALSE(fs::exists(folder / "missing"));
}

// A worker process of the program, which lives on when the program is killed.
TEST(LockFileTest, AChildThatOutlivesItsParentHoldsNoneOfItsLocks) {
  const TempFolder folder;
  fs::create_directory(folder / "locked");
  std::array<int, 2> life = {};  // closing the test's end ends the child
  ASSERT_EQ(pipe(life.data()), 0);
  FileSystem& files = posix_file_system();
  const std::string temporary = temporary_name(folder / "ep1.pt");
  std::unique_ptr<WritableFile> file;
  std::vector<std::shared_ptr<void>> held;
  OtherProcess parent([&] {
    ::close(life[1]);
    file = files.create(temporary, {.lock = true});
    held = {files.lock_folder(folder / "locked"), files.lock_file(folder / "lock", "it").held};
    std::array<int, 2> begun = {};
    ASSERT_EQ(pipe(begun.data()), 0);
    char end = 0;
    if (fork() != 0) {  // the test kills the parent when the child is at work, and not before
      ::close(begun[1]);
      ASSERT_EQ(::read(begun[0], &end, 1), 0);
      return;
    }
    ::close(begun[0]);
    ::close(begun[1]);
    const bool is_over = ::read(life[0], &end, 1) == 0;
    _exit(is_over ? 0 : 1);
  });
  ::close(life[0]);
  EXPECT_FALSE(files.remove_unlocked(temporary));
  EXPECT_EQ(files.lock_folder(folder / "locked"), nullptr);
  EXPECT_EQ(files.lock_file(folder / "lock", "me").held, nullptr);
  parent.kill();
  EXPECT_TRUE(files.remove_unlocked(temporary));
  EXPECT_NE(files.lock_folder(folder / "locked"), nullptr);
  EXPECT_NE(files.lock_file(folder / "lock", "me").held, nullptr);
  ::close(life[1]);
}

TEST(LockFileTest, AChildThatEndsReleasesAndRemovesNothingOfItsParent) {
  const TempFolder folder;
  FileSystem& files = posix_file_system();
  const std::string temporary = temporary_name(folder / "ep1.pt");
  auto file = files.create(temporary, {.lock = true});
  std::shared_ptr<void> held = files.lock_file(folder / "lock", "parent").held;
  OtherProcess child([&] {
    held.reset();
    try {
      file->write(as_bytes("from the child"));
      file->sync();
    } catch (const StorageError&) {
      return file.reset();
    }
    throw UsageError("written");
  });
  child.kill();
  EXPECT_EQ(testing::read_file(folder / "lock"), "parent");
  OtherProcess other([&] {
    if (files.remove_unlocked(temporary)) throw UsageError("removed");
    if (files.lock_file(folder / "lock", "other").held) throw UsageError("locked");
  });
  file->write(as_bytes("from the parent"));
  file->sync();
  EXPECT_EQ(testing::read_file(temporary), "from the parent");
}

}  // namespace
}  // namespace cairn
