// The whole protocol under power loss. "Save A, save B, keep one" is stopped at every operation,
// and every disk that may remain is examined. The same is done with four saves, two of which
// overwrite files of earlier saves. Protocols that leave a step out, or do a step too early, must
// lose checkpoints. This proves that the harness notices such errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "cairn/error.h"

#include "checkpoint/plan/save_pipeline.h"
#include "io/durable/atomic_file.h"
#include "storage/local/links.h"
#include "storage/local/local_store.h"
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

// Makes one save, and keeps one checkpoint.
using Save = std::function<void(FileSystem&, std::int64_t batch)>;
// Makes several saves. Sets `acknowledged` to the last save that was acknowledged.
using Saves = std::function<void(FileSystem&, std::int64_t& acknowledged)>;

void save_in(const std::shared_ptr<ObjectStore>& store, std::int64_t batch) {
  SavePipeline pipeline({.async = false, .store = store});
  pipeline.submit({.value = sample_checkpoint(batch, kTensorBytes),
                   .path = path_of(batch),
                   .latest = kLatest,
                   .remove_afterwards = {path_of(batch - 1)},
                   .info = sample_info(batch)});
  pipeline.wait();
}

void save_with_pipeline(FileSystem& files, std::int64_t batch) {
  save_in(local_store(files), batch);
}

Saves two_saves(const Save& save) {
  return [save](FileSystem& files, std::int64_t& acknowledged) {
    for (std::int64_t batch = 1; batch <= 2; ++batch) {
      save(files, batch);
      acknowledged = batch;
    }
  };
}

constexpr std::int64_t kRecyclingSaves = 4;  // The third and fourth save overwrite old files.

void save_recycling(FileSystem& files, std::int64_t& acknowledged) {
  const auto store = recycling_local_store(files);
  for (std::int64_t batch = 1; batch <= kRecyclingSaves; ++batch) {
    save_in(store, batch);
    acknowledged = batch;
  }
}

struct Losses {
  int states = 0;
  int lost = 0;      // A save was acknowledged, but nothing is found.
  int outdated = 0;  // The checkpoint found is older than the last acknowledged one.
  int torn = 0;      // A file found, or with a checkpoint's name, is not what was saved.
  // The link of an acknowledged save, or the target of that link, names nothing whole.
  int dangling = 0;
  bool any() const { return lost + outdated + torn + dangling > 0; }
};

// The batch that a restarted run resumes from. 0: nothing found; -1: something is wrong.
std::int64_t recover(SimFileSystem& disk) {
  remove_leftovers(disk, kFolder);
  const auto found = find_latest(kFolder, {.store = local_store(disk)});
  if (!found) return 0;
  const std::int64_t batch =
      batch_of_sample(load(found->path, {.store = local_store(disk)}), kTensorBytes);
  return found->timestamp.batch == batch ? batch : -1;
}

// How many files with a checkpoint's name are not the checkpoint that was saved under that name.
int count_torn(SimFileSystem& disk) {
  int torn = 0;
  for (std::int64_t batch = 1; batch <= kRecyclingSaves; ++batch) {
    if (!disk.stat(path_of(batch), true)) continue;
    const auto store = local_store(disk);
    const bool whole =
        verify(path_of(batch), Verify::kFull, store).ok() &&
        batch_of_sample(load(path_of(batch), {.store = store}), kTensorBytes) == batch;
    if (!whole) ++torn;
  }
  return torn;
}

void examine(SimFileSystem& disk, std::int64_t acknowledged, Losses& losses) {
  ++losses.states;
  losses.torn += count_torn(disk);
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

// Stops `run` at each operation in turn, then runs it to the end. `broken`, if given, breaks the
// file system; then the first loss ends the search. `link_error`: see
// SimFileSystem::refuse_links().
Losses crash_everywhere(const Saves& run,
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
      run(files, acknowledged);
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

void expect_none(const Losses& losses) {
  EXPECT_GT(losses.states, 200);
  EXPECT_EQ(losses.lost, 0);
  EXPECT_EQ(losses.outdated, 0);
  EXPECT_EQ(losses.torn, 0);
  EXPECT_EQ(losses.dangling, 0);
}

TEST(CrashTest, EveryAcknowledgedSaveSurvivesPowerLossAtEveryOperation) {
  expect_none(crash_everywhere(two_saves(save_with_pipeline)));
}

TEST(CrashTest, NothingIsLostOnAFileSystemWithoutLinks) {
  expect_none(crash_everywhere(two_saves(save_with_pipeline), nullptr, EPERM));
}

TEST(RecyclingCrashTest, EveryAcknowledgedSaveSurvivesPowerLossAtEveryOperation) {
  for (const int link_error : {0, EPERM}) {
    expect_none(crash_everywhere(save_recycling, nullptr, link_error));
  }
}

TEST(RecyclingCrashTest, TheRunOfTheseTestsWritesOverOldFiles) {
  SimFileSystem disk;
  const auto inode = [&](std::int64_t batch) { return disk.stat(path_of(batch), true)->inode; };
  auto store = recycling_local_store(disk);
  std::vector<std::uint64_t> inodes;
  for (std::int64_t batch = 1; batch <= kRecyclingSaves; ++batch) {
    save_in(store, batch);
    inodes.push_back(inode(batch));
    EXPECT_EQ(count_torn(disk), 0);
  }
  EXPECT_NE(inodes[0], inodes[1]);
  EXPECT_EQ(inodes[2], inodes[0]);
  EXPECT_EQ(inodes[3], inodes[1]);
  EXPECT_THAT(disk.list(kFolder), ::testing::Contains(::testing::StartsWith(".cairn-tmp-")));
  store.reset();
  EXPECT_THAT(disk.list(kFolder), ::testing::ElementsAre("ep0-ba4-rank0.pt", "latest-rank0.pt"));
}

TEST(RecyclingCrashTest, WhatWasLeftIsCleanedAndSavedOverAgain) {
  bool finished = false;
  for (std::uint64_t n = 1; !finished; ++n) {
    SimFileSystem disk;
    disk.crash_at(n);
    std::int64_t acknowledged = 0;
    try {
      save_recycling(disk, acknowledged);
      finished = true;
    } catch (const SimulatedCrash&) {
    }
    for (const auto& left : disk.after_power_loss()) {
      if (!left->stat(kFolder, true)) continue;
      ASSERT_GE(recover(*left), acknowledged);
      EXPECT_THAT(left->list(kFolder), ::testing::Each(::testing::Not(::testing::StartsWith("."))));
      std::int64_t again = 0;
      save_recycling(*left, again);
      EXPECT_EQ(recover(*left), kRecyclingSaves);
      EXPECT_EQ(count_torn(*left), 0);
    }
  }
}

// The disk fails at one call. Acknowledged saves are still there. The failed save works when it is
// repeated, and so do the next saves.
TEST(RecyclingCrashTest, AFaultAtAnyCallTouchesNothingThatIsWantedAndTheNextSaveWorks) {
  int noticed = 0;
  for (const int error : {ENOSPC, EIO, EMFILE, EACCES}) {
    for (std::uint64_t n = 1;; ++n) {
      SimFileSystem disk;
      FaultyFileSystem files(disk);
      files.fail(n, error);
      auto store = recycling_local_store(files);
      for (std::int64_t batch = 1; batch <= kRecyclingSaves; ++batch) {
        try {
          save_in(store, batch);
        } catch (const StorageError& e) {
          ++noticed;
          EXPECT_EQ(e.status(), error);
          EXPECT_EQ(count_torn(disk), 0) << n;
          if (batch > 1) {
            ASSERT_TRUE(verify(kLatest, Verify::kFull, local_store(disk)).ok()) << n;
          }
          save_in(store, batch);
        }
        ASSERT_EQ(count_torn(disk), 0) << n;
        ASSERT_EQ(link_target(disk, kLatest), path_of(batch)) << n;
      }
      store.reset();
      EXPECT_EQ(recover(disk), kRecyclingSaves) << n;
      EXPECT_THAT(disk.list(kFolder), ::testing::Each(::testing::Not(::testing::StartsWith("."))));
      if (files.calls() < n) break;
    }
  }
  EXPECT_GT(noticed, 100);
}

// The folder was copied from a file system with links to a file system without links, or back. So
// the existing `latest` has the other form. At every moment there is a `latest` that leads to a
// whole checkpoint.
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
      // The restarted run repeats the save under the same names, and makes the next one.
      save_with_pipeline(*left, 2);
      save_with_pipeline(*left, 3);
      EXPECT_EQ(recover(*left), 3);
      EXPECT_EQ(link_target(*left, kLatest), path_of(3));
    }
  }
}

// --- Would the harness notice? -------------------------------------------------------------------

TEST(CrashHarnessTest, FindsLossWhenFilesAreNotSynced) {
  for (const Saves& run : {two_saves(save_with_pipeline), Saves(save_recycling)}) {
    const Losses losses =
        crash_everywhere(run, [](FaultyFileSystem& files) { files.skip(FileCall::kSync); });
    EXPECT_TRUE(losses.any());
  }
}

TEST(CrashHarnessTest, FindsLossWhenFoldersAreNotSynced) {
  for (const Saves& run : {two_saves(save_with_pipeline), Saves(save_recycling)}) {
    const Losses losses =
        crash_everywhere(run, [](FaultyFileSystem& files) { files.skip(FileCall::kSyncFolder); });
    EXPECT_TRUE(losses.any());
  }
}

// Writes the checkpoint of `batch` over the file `path`, and renames the file to the checkpoint's
// name.
void save_over(FileSystem& files, const std::string& path, std::int64_t batch) {
  SimFileSystem scratch;
  save_with_pipeline(scratch, batch);
  const auto file = files.overwrite(path, 0);
  file->write(testing::file_bytes(scratch, path_of(batch)).view);
  file->sync();
  files.rename(path, path_of(batch), true);
  file->close();
  files.sync_folder(kFolder);
  replace_link(files, base_name(path_of(batch)), kLatest);
}

TEST(CrashHarnessTest, FindsLossWhenTheOnlyCheckpointIsWrittenOver) {
  const Losses losses = crash_everywhere([](FileSystem& files, std::int64_t& acknowledged) {
    save_with_pipeline(files, 1);
    acknowledged = 1;
    save_over(files, path_of(1), 2);
    acknowledged = 2;
  });
  EXPECT_GT(losses.lost, 0);
}

TEST(CrashHarnessTest, FindsATornFileWhenTheOldNameIsNotGoneForCertain) {
  const Losses losses = crash_everywhere([](FileSystem& files, std::int64_t& acknowledged) {
    for (std::int64_t batch : {1, 3}) {
      save_with_pipeline(files, batch);
      acknowledged = batch;
    }
    const std::string spare = temporary_name(path_of(1));
    files.rename(path_of(1), spare, true);  // Without sync_folder().
    save_over(files, spare, 4);
    acknowledged = 4;
  });
  EXPECT_EQ(losses.lost, 0);
  EXPECT_GT(losses.torn, 0);
}

TEST(CrashHarnessTest, FindsLossWhenTheOldCheckpointGoesFirst) {
  const Losses losses = crash_everywhere(two_saves([](FileSystem& files, std::int64_t batch) {
    files.remove(path_of(batch - 1));
    save_with_pipeline(files, batch);
  }));
  EXPECT_GT(losses.lost, 0);
}

// Composer's order: it writes the final name directly, removes the link and makes it again.
TEST(CrashHarnessTest, FindsLossInWritesUnderTheFinalName) {
  const Losses losses = crash_everywhere(two_saves([](FileSystem& files, std::int64_t batch) {
    SimFileSystem scratch;
    save_with_pipeline(scratch, batch);
    files.make_folders(kFolder);
    const auto file = files.create(path_of(batch), {});
    file->write(testing::file_bytes(scratch, path_of(batch)).view);
    file->close();
    files.remove(kLatest);
    files.make_link("ep0-ba" + std::to_string(batch) + "-rank0.pt", kLatest);
    files.remove(path_of(batch - 1));
  }));
  EXPECT_GT(losses.lost, 0);
  EXPECT_GT(losses.dangling, 0);
}

}  // namespace
}  // namespace cairn
