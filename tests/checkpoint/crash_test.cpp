// The whole protocol under power loss: "save A, save B, keep one" is stopped at every operation,
// and every disk that may be left then is examined. And proof that the harness notices: protocols
// with one thing left out or done too early must fail it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "checkpoint/plan/save_pipeline.h"
#include "io/atomic_file.h"
#include "storage/links.h"
#include "storage/local_store.h"
#include "testing/faulty_file_system.h"
#include "testing/file_bytes.h"
#include "testing/sample_checkpoint.h"
#include "testing/sim_file_system.h"

namespace cairn {
namespace {

using testing::batch_of_sample;
using testing::FaultyFileSystem;
using testing::FileCall;
using testing::sample_checkpoint;
using testing::sample_info;
using testing::SimFileSystem;
using testing::SimulatedCrash;

constexpr std::size_t kTensorBytes = 64;
const std::string kFolder = "/run/ckpt";
const std::string kLatest = kFolder + "/latest-rank0.pt";

std::string path_of(std::int64_t batch) {
  return kFolder + "/ep0-ba" + std::to_string(batch) + "-rank0.pt";
}

// One save that keeps one checkpoint.
using Save = std::function<void(FileSystem&, std::int64_t batch)>;

void save_with_pipeline(FileSystem& files, std::int64_t batch) {
  SavePipeline pipeline({.async = false, .store = local_store(files)});
  pipeline.submit({.value = sample_checkpoint(batch, kTensorBytes),
                   .path = path_of(batch),
                   .latest = kLatest,
                   .remove_afterwards = {path_of(batch - 1)},
                   .info = sample_info(batch)});
  pipeline.wait();
}

struct Losses {
  int states = 0;
  int lost = 0;      // a save was acknowledged, and nothing is found
  int outdated = 0;  // an older checkpoint than the last acknowledged one is found
  int torn = 0;      // what is found is no checkpoint that was saved
  int dangling = 0;  // the link of an acknowledged save, or its file, names nothing whole
  bool any() const { return lost + outdated + torn + dangling > 0; }
};

// Batch of what a restarted run goes on from; 0: nothing found, -1: something wrong.
std::int64_t recover(SimFileSystem& disk) {
  remove_leftovers(disk, kFolder);
  const auto found = find_latest(kFolder, {.store = local_store(disk)});
  if (!found) return 0;
  const std::int64_t batch =
      batch_of_sample(load(found->path, {.store = local_store(disk)}), kTensorBytes);
  return found->timestamp.batch == batch ? batch : -1;
}

void examine(SimFileSystem& disk, std::int64_t acknowledged, Losses& losses) {
  ++losses.states;
  const std::int64_t batch = recover(disk);
  if (batch < 0) ++losses.torn;
  if (batch == 0 && acknowledged > 0) ++losses.lost;
  if (batch > 0 && batch < acknowledged) ++losses.outdated;
  if (acknowledged > 0) {
    const auto target = link_target(disk, kLatest);
    const bool whole = target && disk.stat(*target, true) &&
                       verify(kLatest, Verify::kFull, local_store(disk)).ok();
    if (!whole) ++losses.dangling;
  }
}

// Stops at each operation in turn, then lets all be done. `broken` breaks the file system;
// then the first loss is enough. `link_error`: SimFileSystem::refuse_links().
Losses crash_everywhere(const Save& save,
                        const std::function<void(FaultyFileSystem&)>& broken = nullptr,
                        int link_error = 0) {
  Losses losses;
  bool finished = false;
  for (std::uint64_t n = 1; !finished; ++n) {
    SimFileSystem disk;
    disk.refuse_links(link_error);
    disk.crash_at(n);
    FaultyFileSystem files(disk);
    if (broken) broken(files);
    std::int64_t acknowledged = 0;
    try {
      for (std::int64_t batch = 1; batch <= 2; ++batch) {
        save(files, batch);
        acknowledged = batch;
      }
      finished = true;
    } catch (const SimulatedCrash&) {
    }
    for (const auto& left : disk.after_power_loss()) {
      examine(*left, acknowledged, losses);
      if (broken && losses.any()) return losses;
    }
  }
  return losses;
}

TEST(CrashTest, EveryAcknowledgedSaveSurvivesPowerLossAtEveryOperation) {
  const Losses losses = crash_everywhere(save_with_pipeline);
  EXPECT_GT(losses.states, 200);
  EXPECT_EQ(losses.lost, 0);
  EXPECT_EQ(losses.outdated, 0);
  EXPECT_EQ(losses.torn, 0);
  EXPECT_EQ(losses.dangling, 0);
}

TEST(CrashTest, NothingIsLostOnAFileSystemWithoutLinks) {
  const Losses losses = crash_everywhere(save_with_pipeline, nullptr, EPERM);
  EXPECT_GT(losses.states, 200);
  EXPECT_EQ(losses.lost, 0);
  EXPECT_EQ(losses.outdated, 0);
  EXPECT_EQ(losses.torn, 0);
  EXPECT_EQ(losses.dangling, 0);
}

// The folder was copied from a file system with links to one without, or back: the mark of before
// is of the other form, and there is one at every moment.
TEST(CrashTest, TheLinkIsNeverMissingWhenItsFormChanges) {
  for (const auto& [before, after] : {std::pair(0, EPERM), std::pair(EPERM, 0)}) {
    bool finished = false;
    for (std::uint64_t n = 1; !finished; ++n) {
      SimFileSystem disk;
      disk.refuse_links(before);
      save_with_pipeline(disk, 1);
      disk.refuse_links(after);
      disk.crash_at(disk.operations() + n);
      try {
        save_with_pipeline(disk, 2);
        finished = true;
      } catch (const SimulatedCrash&) {
      }
      for (const auto& left : disk.after_power_loss()) {
        ASSERT_TRUE(verify(kLatest, Verify::kFull, local_store(*left)).ok()) << left->describe();
      }
      if (!finished) continue;
      const std::string link = after == 0 ? "latest-rank0.pt" : "latest-rank0.pt.symlink";
      EXPECT_THAT(disk.list(kFolder), ::testing::ElementsAre("ep0-ba2-rank0.pt", link));
    }
  }
}

TEST(CrashTest, WhatWasLeftIsCleanedAndSavedOverAgain) {
  bool finished = false;
  for (std::uint64_t n = 1; !finished; ++n) {
    SimFileSystem disk;
    disk.refuse_links(n % 2 == 0 ? ENOTSUP : 0);
    save_with_pipeline(disk, 1);
    disk.crash_at(disk.operations() + n);
    try {
      save_with_pipeline(disk, 2);
      finished = true;
    } catch (const SimulatedCrash&) {
    }
    for (const auto& left : disk.after_power_loss()) {
      const std::int64_t batch = recover(*left);
      ASSERT_GE(batch, 1);
      EXPECT_THAT(left->list(kFolder), ::testing::Each(::testing::Not(::testing::StartsWith("."))));
      // The restarted run makes the step again, under the same names, and the one after.
      save_with_pipeline(*left, 2);
      save_with_pipeline(*left, 3);
      EXPECT_EQ(recover(*left), 3);
      EXPECT_EQ(link_target(*left, kLatest), path_of(3));
    }
  }
}

// --- Would the harness notice? -------------------------------------------------------------------

TEST(CrashHarnessTest, FindsLossWhenFilesAreNotSynced) {
  const Losses losses = crash_everywhere(
      save_with_pipeline, [](FaultyFileSystem& files) { files.skip(FileCall::kSync); });
  EXPECT_TRUE(losses.any());
}

TEST(CrashHarnessTest, FindsLossWhenFoldersAreNotSynced) {
  const Losses losses = crash_everywhere(
      save_with_pipeline, [](FaultyFileSystem& files) { files.skip(FileCall::kSyncFolder); });
  EXPECT_TRUE(losses.any());
}

TEST(CrashHarnessTest, FindsLossWhenTheOldCheckpointGoesFirst) {
  const Losses losses = crash_everywhere([](FileSystem& files, std::int64_t batch) {
    files.remove(path_of(batch - 1));
    save_with_pipeline(files, batch);
  });
  EXPECT_GT(losses.lost, 0);
}

// Composer's order: the final name is written directly, the link removed and made again.
TEST(CrashHarnessTest, FindsLossInWritesUnderTheFinalName) {
  const Losses losses = crash_everywhere([](FileSystem& files, std::int64_t batch) {
    SimFileSystem scratch;
    save_with_pipeline(scratch, batch);
    files.make_folders(kFolder);
    const auto file = files.create(path_of(batch), {});
    file->write(testing::file_bytes(scratch, path_of(batch)).view);
    file->close();
    files.remove(kLatest);
    files.make_link("ep0-ba" + std::to_string(batch) + "-rank0.pt", kLatest);
    files.remove(path_of(batch - 1));
  });
  EXPECT_GT(losses.lost, 0);
  EXPECT_GT(losses.dangling, 0);
}

}  // namespace
}  // namespace cairn
