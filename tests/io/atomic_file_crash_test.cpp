// Loses power at every operation of one replacement, and examines every disk state that may be
// left. Also proves that the test would notice a fault: if any one step of the protocol is left
// out, the test must find a loss.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/durable/atomic_file.h"
#include "testing/faulty_file_system.h"
#include "testing/file_bytes.h"
#include "testing/sim_file_system.h"

namespace cairn {
namespace {

using testing::FaultyFileSystem;
using testing::FileCall;
using testing::SimFileSystem;
using testing::SimulatedCrash;

const std::string kOld = "the old content";
const std::string kNew = "the new content, which is somewhat longer";

void replace(FileSystem& files, const std::string& text) {
  AtomicFile file(files, "/folder/f", {});
  file.write(as_bytes(std::string_view(text).substr(0, 10)));
  file.write(as_bytes(std::string_view(text).substr(10)));
  file.commit();
}

struct Losses {
  int states = 0;
  int torn = 0;       // content that is neither the old nor the new content
  int forgotten = 0;  // the old content, although commit() had returned
};

// Crashes at each operation, and once after the last operation. `mutate` breaks the protocol.
Losses crash_everywhere(const std::function<void(FaultyFileSystem&)>& mutate = nullptr) {
  Losses losses;
  bool committed = false;
  for (std::uint64_t n = 1; !committed; ++n) {
    SimFileSystem disk;
    disk.make_folders("/folder");
    replace(disk, kOld);
    disk.crash_at(disk.operations() + n);
    FaultyFileSystem faulty(disk);
    if (mutate) mutate(faulty);
    try {
      replace(faulty, kNew);
      committed = true;
    } catch (const SimulatedCrash&) {
      EXPECT_TRUE(disk.crashed());
    }
    for (const auto& left : disk.after_power_loss()) {
      ++losses.states;
      const auto there = left->stat("/folder/f", true);
      const std::string text =
          there ? std::string(as_text(testing::file_bytes(*left, "/folder/f").view)) : "nothing";
      if (text != kOld && text != kNew) ++losses.torn;
      if (committed && text != kNew) ++losses.forgotten;
      remove_leftovers(*left, "/folder");
      EXPECT_THAT(left->list("/folder"), ::testing::IsSubsetOf({"f"})) << left->describe();
    }
  }
  return losses;
}

TEST(AtomicFileCrashTest, OldOrNewAndNewOnceCommitted) {
  const Losses losses = crash_everywhere();
  EXPECT_GT(losses.states, 20);
  EXPECT_EQ(losses.torn, 0);
  EXPECT_EQ(losses.forgotten, 0);
}

TEST(AtomicFileCrashTest, WithoutSyncOfTheFileTheHarnessFindsTornFiles) {
  EXPECT_GT(crash_everywhere([](FaultyFileSystem& files) { files.skip(FileCall::kSync); }).torn, 0);
}

TEST(AtomicFileCrashTest, WithoutSyncOfTheFolderTheHarnessFindsForgottenFiles) {
  const Losses losses =
      crash_everywhere([](FaultyFileSystem& files) { files.skip(FileCall::kSyncFolder); });
  EXPECT_GT(losses.forgotten, 0);
}

}  // namespace
}  // namespace cairn
