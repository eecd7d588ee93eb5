// SIGKILL at every call of real saves to a real file system. A child process saves in a loop, and
// reports which saves it was told are done.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>

#include "checkpoint/plan/save_pipeline.h"
#include "io/durable/atomic_file.h"
#include "storage/local/local_store.h"
#include "testing/faulty_file_system.h"
#include "testing/sample_checkpoint.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using testing::batch_of_sample;
using testing::FaultyFileSystem;
using testing::FileCall;
using testing::sample_checkpoint;
using testing::sample_info;
using testing::TempFolder;

std::string path_of(const std::string& folder, std::int64_t batch) {
  return folder + "/ep" + std::to_string(batch / 10) + "-ba" + std::to_string(batch) + "-rank0.pt";
}

// Saves batches begin+1 to begin+count and keeps one. Writes each acknowledged batch to `pipe`.
void save_in_a_loop(const std::shared_ptr<ObjectStore>& store, const std::string& folder,
                    std::int64_t begin, std::int64_t count, int pipe) {
  store->remove_leftovers(folder);
  SavePipeline pipeline({.store = store});
  for (std::int64_t batch = begin + 1; batch <= begin + count; ++batch) {
    pipeline.submit({.value = sample_checkpoint(batch),
                     .path = path_of(folder, batch),
                     .latest = folder + "/latest-rank0.pt",
                     .remove_afterwards = {path_of(folder, batch - 1)},
                     .info = sample_info(batch),
                     .report = [&, batch](const SaveReport&) {
                       if (write(pipe, &batch, sizeof batch) != sizeof batch) _exit(3);
                     }});
  }
  pipeline.wait();
}

struct Outcome {
  bool killed = false;
  std::int64_t acknowledged = 0;
};

using MakeStore = std::shared_ptr<ObjectStore> (*)(FileSystem&);

// Runs the loop in a child process, which gets SIGKILL in place of its `kill_at`-th call.
Outcome run_and_kill(const std::string& folder, std::int64_t begin, std::int64_t count,
                     std::uint64_t kill_at, MakeStore make_store = local_store) {
  int ends[2] = {};
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    FaultyFileSystem files(posix_file_system());
    files.before_each([=](FileCall, std::uint64_t number) {
      if (number == kill_at) raise(SIGKILL);
    });
    try {
      save_in_a_loop(make_store(files), folder, begin, count, ends[1]);
    } catch (...) {
      _exit(2);
    }
    _exit(0);
  }
  close(ends[1]);
  Outcome run;
  std::int64_t batch = 0;
  while (::read(ends[0], &batch, sizeof batch) == sizeof batch) {
    run.acknowledged = batch;
  }
  close(ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  run.killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  EXPECT_TRUE(run.killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) << status;
  return run;
}

// The batch that a restarted run resumes from. 0 if there is none.
std::int64_t recover(const std::string& folder) {
  std::vector<std::string> skipped;
  const auto found =
      find_latest(folder, {.on_skip = [&](const std::string& path, const std::string& why) {
                    skipped.push_back(path + ": " + why);
                  }});
  EXPECT_THAT(skipped, ::testing::IsEmpty());
  return found ? batch_of_sample(load(found->path)) : 0;
}

class KillAnywhereTest : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Stores, KillAnywhereTest, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Recycling" : "NewFiles"; });

TEST_P(KillAnywhereTest, KilledAtAnyCallTheLastAcknowledgedSaveOrALaterOneIsFound) {
  const MakeStore of_new_files = local_store;
  const MakeStore recycling = recycling_local_store;
  bool killed = true;
  std::uint64_t kill_at = 1;
  for (; killed; ++kill_at) {
    const TempFolder folder;
    const Outcome run =
        run_and_kill(folder.path(), 0, 3, kill_at, GetParam() ? recycling : of_new_files);
    killed = run.killed;
    const std::int64_t batch = recover(folder.path());
    ASSERT_GE(batch, run.acknowledged) << "killed at call " << kill_at;
    EXPECT_TRUE(killed || batch == 3);

    remove_leftovers(posix_file_system(), folder.path());
    for (const std::string& name : posix_file_system().list(folder.path())) {
      EXPECT_FALSE(is_temporary_name(name)) << name;
    }
    EXPECT_TRUE(run.acknowledged == 0 || batch_of_sample(load(folder / "latest-rank0.pt")) > 0);
  }
  EXPECT_GT(kill_at, 60U);  // There are three saves of some twenty calls each.
}

TEST(KillTest, OneRunKilledAgainAndAgainNeverGoesBack) {
  const TempFolder folder;
  std::mt19937 random(20261120);
  std::int64_t batch = 0;
  for (int round = 0; round < 60; ++round) {
    const Outcome run = run_and_kill(folder.path(), batch, 5, 1 + random() % 150);
    const std::int64_t found = recover(folder.path());
    ASSERT_GE(found, std::max(batch, run.acknowledged)) << "round " << round;
    batch = found;
  }
  EXPECT_GT(batch, 30);
  // The folder has the last run's own files, and at most one old checkpoint for every kill between
  // link and removal. Its temporary files are only those of the last run.
  int leftovers = 0;
  for (const std::string& name : posix_file_system().list(folder.path())) {
    leftovers += is_temporary_name(name) ? 1 : 0;
  }
  EXPECT_LE(leftovers, 1);
}

}  // namespace
}  // namespace cairn
