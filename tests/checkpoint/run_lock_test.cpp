// The lock that prevents two starts of one run at the same time.
#include "checkpoint/folder/run_lock.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "cairn/error.h"
#include "cairn/exit_code.h"

#include "io/machine.h"
#include "storage/listing.h"
#include "storage/local/local_store.h"
#include "testing/faulty_file_system.h"
#include "testing/message_of.h"
#include "testing/other_process.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using testing::OtherProcess;
using ::testing::SizeIs;

class RunLockTest : public ::testing::Test {
 protected:
  std::shared_ptr<void> take(const std::string& run_name, const std::string& job = "job") const {
    return take_run_lock(posix_file_system(),
                         {.folder = folder_.path(), .run_name = run_name, .job = job});
  }
  std::vector<RunLockFile> locks() const {
    return list_run_locks(posix_file_system(), folder_.path());
  }

  const testing::TempFolder folder_;
};

TEST_F(RunLockTest, TheSecondProcessIsToldNumberMachineAndTimeOfTheFirst) {
  std::shared_ptr<void> held;
  const OtherProcess first([&] { held = take("run"); });
  const std::string started = locks().at(0).holder.started;
  EXPECT_THAT(message_of<BusyError>([&] { take("run", "another"); }),
              AllOf(HasSubstr("\"run\""), HasSubstr(folder_.path()),
                    HasSubstr("process " + std::to_string(first.pid())), HasSubstr(node_name()),
                    HasSubstr(started), HasSubstr("cairn lock " + folder_.path())));
  EXPECT_EQ(exit_code_of(BusyError("")), kBusy);
  EXPECT_NE(take("other", "another"), nullptr) << "another run may save there";
}

TEST_F(RunLockTest, AfterTheFirstDiedTheNextStartTakesIt) {
  std::shared_ptr<void> held;
  OtherProcess first([&] { held = take("run"); });
  first.kill();
  EXPECT_THAT(locks(), SizeIs(1)) << "its file is there";
  held = take("run", "another");
  EXPECT_NE(held, nullptr);
  EXPECT_EQ(locks().at(0).holder.pid, process_id());
  held.reset();
  EXPECT_THAT(locks(), IsEmpty());
}

TEST_F(RunLockTest, AllInOneProcessShareItUntilTheLastIsGone) {
  std::shared_ptr<void> one = take("run", "one");
  fs::create_directory_symlink(folder_.path(), folder_ / "linked");
  std::shared_ptr<void> two = take_run_lock(
      posix_file_system(), {.folder = folder_ / "linked", .run_name = "run", .job = "two"});
  EXPECT_EQ(one, two);
  one.reset();
  EXPECT_THAT(locks(), SizeIs(1));
  two.reset();
  EXPECT_THAT(locks(), IsEmpty());
}

// Two machines share the folder. The first rank of each machine takes the lock.
TEST_F(RunLockTest, ProcessesOfOneStartShareIt) {
  std::shared_ptr<void> held;
  const OtherProcess first([&] { held = take("run", "this start"); });
  const auto shared = take("run", "this start");
  EXPECT_NE(shared, nullptr);
  EXPECT_EQ(take("run", "of another saver"), shared) << "as all in this process do";
}

TEST_F(RunLockTest, AForkOfItsHolderDoesNotHoldIt) {
  const auto held = take("run");
  const OtherProcess child([&] {
    try {
      take("run", "child");
    } catch (const BusyError&) {
      return;
    }
    throw UsageError("not refused");
  });
  EXPECT_EQ(locks().at(0).holder.pid, process_id()) << "the child took nothing";
}

TEST_F(RunLockTest, NoListShowsIt) {
  const auto held = take("run");
  EXPECT_THAT(list_names(*local_store(), folder_.path()), IsEmpty());
}

TEST_F(RunLockTest, WhatElseHasItsNameIsPutAside) {
  std::string path;
  {
    const auto held = take("run");
    path = locks().at(0).path;
  }
  fs::create_directories(path + "/in it");
  EXPECT_NE(take("run"), nullptr);
  EXPECT_TRUE(fs::exists(path + ".damaged/in it"));
  fs::create_symlink(folder_ / "target", path);
  EXPECT_NE(take("run"), nullptr);
  EXPECT_FALSE(fs::exists(folder_ / "target"));
}

TEST_F(RunLockTest, AFileOfAnyContentIsNoObstacle) {
  std::string path;
  {
    const auto held = take("run");
    path = locks().at(0).path;
  }
  for (const char* text : {"", "{", "[1]", R"({"pid": "x", "host": 3})", R"({"pid": -1})"}) {
    testing::write_file(path, text);
    EXPECT_FALSE(locks().at(0).is_alive_here) << text;
    EXPECT_NE(take("run"), nullptr) << text;
  }
}

TEST_F(RunLockTest, OfAProcessThatLivesHereItIsNotReleased) {
  std::shared_ptr<void> held;
  OtherProcess first([&] { held = take("run"); });
  EXPECT_THAT(message_of<BusyError>([&] { release_run_lock(posix_file_system(), locks().at(0)); }),
              HasSubstr("process " + std::to_string(first.pid())));
  first.kill();
  release_run_lock(posix_file_system(), locks().at(0));
  EXPECT_THAT(locks(), IsEmpty());
}

// Another process may have got the process id of a process that died.
TEST_F(RunLockTest, TheLockThatNoProcessHasIsReleasedWhateverItsTextSays) {
  std::string path;
  {
    const auto held = take("run");
    path = locks().at(0).path;
  }
  testing::write_file(path, R"({"run_name": "run", "pid": )" + std::to_string(process_id()) +
                                R"(, "host": ")" + node_name() + R"("})");
  ASSERT_TRUE(locks().at(0).is_alive_here);
  release_run_lock(posix_file_system(), locks().at(0));
  EXPECT_THAT(locks(), IsEmpty());
}

// This holds whatever the lock's text says, even if a full disk left the text empty, because no
// other machine uses this machine's file system.
TEST_F(RunLockTest, TheLockOfALivingProcessHereIsNotReleased) {
  std::shared_ptr<void> held;
  const OtherProcess first([&] { held = take("run"); });
  for (const char* const text : {"", R"({"run_name": "run", "pid": 1, "host": "dead"})"}) {
    testing::write_file(locks().at(0).path, text);
    const RunLockFile lock = locks().at(0);
    EXPECT_FALSE(lock.is_alive_here);
    EXPECT_THAT(message_of<BusyError>([&] { release_run_lock(posix_file_system(), lock); }),
                HasSubstr("is alive on this machine"));
    EXPECT_THAT(locks(), SizeIs(1));
  }
}

// Files on a server that other machines use, too.
struct SharedFiles final : testing::FaultyFileSystem {
  using FaultyFileSystem::FaultyFileSystem;
  FileLock lock_file(const FilePath& path, const std::string& text) override {
    FileLock lock = posix_file_system().lock_file(path, text);
    lock.is_held_here = false;
    return lock;
  }
};

// A server still holds the lock of a dead machine. In this test a local process holds that lock
// under another machine's name.
TEST_F(RunLockTest, AfterAReleaseTheNextStartIsNotHeldUp) {
  std::shared_ptr<void> held;
  const OtherProcess first([&] { held = take("run"); });
  RunLockFile lock = locks().at(0);
  testing::write_file(lock.path, R"({"run_name": "run", "pid": 1, "host": "dead", "job": "j"})");
  EXPECT_THAT(message_of<BusyError>([&] { take("run"); }), HasSubstr("process 1 on dead"));
  lock = locks().at(0);
  EXPECT_FALSE(lock.is_alive_here);
  SharedFiles server(posix_file_system());
  release_run_lock(server, lock);
  EXPECT_NE(take("run"), nullptr);
}

}  // namespace
}  // namespace cairn
