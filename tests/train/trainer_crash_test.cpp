// Crashes, power cuts and faults under a whole Trainer: a run of three saves with rotation and
// autoresume. The disk stops or fails at each of its operations in turn. In one variant, saves
// overwrite the files of retired checkpoints. In that variant a file must not change while it has a
// checkpoint's name.

#include <gmock/gmock.h>

#include <algorithm>
#include <optional>
#include <set>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/schedulers/schedulers.h"
#include "cairn/train/trainer.h"

#include "storage/listing.h"
#include "storage/local/local_store.h"
#include "testing/faulty_file_system.h"
#include "testing/resumable_state.h"
#include "testing/sim_file_system.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using testing::CallAt;
using testing::FaultyFileSystem;
using testing::FileCall;
using testing::resumable_state;
using testing::SimFileSystem;
using testing::SimulatedCrash;
using testing::tiny_loader;
using testing::tiny_options;

constexpr std::int64_t kSaves = 3;
const std::string kFolder = "/run/ckpt";
const std::string kLatest = kFolder + "/latest-rank0.pt";

struct Way {
  const char* name;
  bool async = false;
  int link_error = 0;     // For SimFileSystem::refuse_links().
  bool recycles = false;  // The third save overwrites the file of the first save.
};

void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }  // NOLINT: gtest's name

class TrainerCrash : public ::testing::TestWithParam<Way> {
 protected:
  TrainerOptions options(FileSystem& disk) const {
    TrainerOptions made = tiny_options({.dropout = 0.3});
    made.train_dataloader = tiny_loader(10, {.batch_size = 2, .shuffle = true, .num_workers = 0});
    made.optimizers = AdamW({.lr = 0.01});
    made.schedulers = CosineAnnealingScheduler();
    made.max_duration = std::to_string(kSaves) + "ba";
    made.run_name = "run";
    made.save_folder = kFolder;
    made.save_interval = "1ba";
    made.save_num_checkpoints_to_keep = 1;
    made.save_async = GetParam().async;
    made.save_object_store = GetParam().recycles ? recycling_local_store(disk) : local_store(disk);
    made.autoresume = true;
    made.seed = 3;
    return made;
  }

  // The last state of an undisturbed run.
  Value undisturbed() const {
    SimFileSystem disk;
    disk.refuse_links(GetParam().link_error);
    Trainer(options(disk)).fit();
    return resumable_state(load(kLatest, {.store = local_store(disk)}));
  }
};

INSTANTIATE_TEST_SUITE_P(Ways, TrainerCrash,
                         ::testing::Values(Way{"Sync"}, Way{"Async", true},
                                           Way{"WithoutLinks", true, EPERM},
                                           Way{"Recycling", false, 0, true},
                                           Way{"RecyclingAsync", true, 0, true}),
                         [](const auto& test) { return test.param.name; });

std::string path_of(std::int64_t batch) {
  return kFolder + "/ep0-ba" + std::to_string(batch) + "-rank0.pt";
}

// Whether every file with a checkpoint's name is the checkpoint that was saved under that name.
::testing::AssertionResult all_are_whole(SimFileSystem& disk) {
  const auto store = local_store(disk);
  for (std::int64_t batch = 1; batch <= kSaves; ++batch) {
    const std::string path = path_of(batch);
    if (!disk.stat(path, true)) continue;
    const VerifyReport report = verify(path, Verify::kFull, store);
    const bool is_itself =
        report.info && report.info->timestamp && report.info->timestamp->batch == batch;
    if (report.ok() && is_itself) continue;
    return ::testing::AssertionFailure() << path << " was touched\n" << disk.describe();
  }
  return ::testing::AssertionSuccess();
}

// Trains on `disk` until training is done or the process dies. Returns the last batch whose save is
// known to be durable.
std::int64_t train(TrainerOptions made, bool async) {
  std::int64_t durable = 0;
  made.callbacks.push_back(CallAt(Event::kBatchStart, [&](State& state) {
    // The next save waits for a background save.
    durable = std::max<std::int64_t>(0, state.timestamp.batch - (async ? 1 : 0));
  }));
  try {
    Trainer trainer(std::move(made));
    trainer.fit();
    durable = kSaves;
    trainer.close();
  } catch (const SimulatedCrash&) {
  }
  return durable;
}

TEST_P(TrainerCrash, OnlyTheRecyclingWaysWriteOverAnOldFile) {
  SimFileSystem disk;
  disk.refuse_links(GetParam().link_error);
  FaultyFileSystem files(disk);
  std::uint64_t first = 0;
  files.before_each([&](FileCall kind, std::uint64_t /*number*/) {  // A rename takes its name away.
    const auto file = disk.stat(path_of(1), true);
    if (kind == FileCall::kRename && file) first = file->inode;
  });
  train(options(files), GetParam().async);
  ASSERT_NE(first, 0);
  EXPECT_EQ(disk.stat(path_of(kSaves), true)->inode == first, GetParam().recycles);
}

TEST_P(TrainerCrash, AtEveryOperationARestartGoesOnWithTheSameBits) {
  const Value expected = undisturbed();
  int states = 0;
  for (std::uint64_t n = 1;; ++n) {
    SimFileSystem disk;
    disk.refuse_links(GetParam().link_error);
    disk.crash_at(n);
    const std::int64_t durable = train(options(disk), GetParam().async);
    std::set<std::string> seen;
    for (const auto& left : disk.after_power_loss()) {
      ASSERT_TRUE(all_are_whole(*left)) << n;
      if (!seen.insert(left->describe()).second) continue;
      ++states;
      Trainer again(options(*left));
      const std::int64_t begin = again.state().timestamp.batch;
      ASSERT_GE(begin, durable) << n << "\n" << left->describe();
      again.fit();
      again.close();
      ASSERT_EQ(resumable_state(load(kLatest, {.store = local_store(*left)})), expected)
          << n << "\n"
          << left->describe();
      if (begin == kSaves) continue;  // No training and no rotation was left to do.
      EXPECT_THAT(list_names(*local_store(*left), kFolder),
                  ::testing::ElementsAre("ep0-ba3-rank0.pt", "latest-rank0.pt"))
          << n;
    }
    if (!disk.crashed()) break;
  }
  EXPECT_GT(states, 100);
}

// The disk fails once, at any call, with any error. The same Trainer continues, and its next save
// succeeds.
TEST_P(TrainerCrash, AtEveryFaultTrainingGoesOnAndTheNextSaveWorks) {
  const Value expected = undisturbed();
  int noticed = 0;
  for (const int error : {ENOSPC, EIO, EMFILE, EACCES}) {
    for (std::uint64_t n = 1;; ++n) {
      SimFileSystem disk;
      disk.refuse_links(GetParam().link_error);
      FaultyFileSystem files(disk);
      files.fail(n, error);
      std::optional<Trainer> trainer;
      try {
        trainer.emplace(options(files));
      } catch (const StorageError& e) {
        // The start reports the error, and succeeds when it is repeated.
        EXPECT_EQ(e.status(), error);
        ++noticed;
        trainer.emplace(options(files));
      }
      try {
        trainer->fit();
      } catch (const StorageError& e) {
        EXPECT_EQ(e.status(), error);
        ++noticed;
        ASSERT_TRUE(all_are_whole(disk)) << "call " << n << ", errno " << error;
        if (trainer->state().timestamp.batch < kSaves) {
          trainer->fit();
        } else {
          trainer->save_checkpoint_to_save_folder();
        }
      }
      trainer->close();
      ASSERT_EQ(resumable_state(load(kLatest, {.store = local_store(disk)})), expected)
          << "call " << n << ", errno " << error;
      if (files.calls() < n) break;
    }
  }
  EXPECT_GT(noticed, 100);
}

}  // namespace
}  // namespace cairn
