// A disk that becomes full at any byte. The file-size limit of a child process imitates such a
// disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "cairn/error.h"

#include "checkpoint/plan/save_pipeline.h"
#include "io/file.h"
#include "testing/sample_checkpoint.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using testing::batch_of_sample;
using testing::sample_checkpoint;
using testing::sample_info;
using testing::TempFolder;

void set_limit(rlim_t bytes) {
  const rlimit limit = {bytes, RLIM_INFINITY};
  setrlimit(RLIMIT_FSIZE, &limit);
}

// Tries to save batch 2 with room for n bytes, for every `step`-th n that is too small, then
// without a limit. Returns the number of the check that failed, or 0.
int save_with_too_little_room(const TempFolder& folder, std::size_t tensor_bytes, rlim_t step) {
  SavePipeline pipeline;
  const auto submit = [&](std::int64_t batch, const std::string& name) {
    pipeline.submit({.value = sample_checkpoint(batch, tensor_bytes),
                     .path = folder / name,
                     .latest = folder / "latest.pt",
                     .info = sample_info(batch)});
    pipeline.wait();
  };
  submit(1, "one.pt");
  const std::uint64_t size = posix_file_system().stat(folder / "one.pt")->size;
  for (rlim_t limit = 0; limit < size; limit += step) {
    set_limit(limit);
    try {
      submit(2, "two.pt");
      return 1;
    } catch (const StorageError& e) {
      if (e.status() != EFBIG || !e.retryable()) return 2;
    }
    if (posix_file_system().list(folder.path()) !=
        std::vector<std::string>{"latest.pt", "one.pt"}) {
      return 3;
    }
    if (batch_of_sample(load(folder / "latest.pt"), tensor_bytes) != 1) return 4;
  }
  set_limit(RLIM_INFINITY);
  submit(2, "two.pt");
  return batch_of_sample(load(folder / "latest.pt"), tensor_bytes) == 2 ? 0 : 5;
}

int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    int result = 99;
    try {
      result = body();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
    }
    _exit(result);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(FullDiskTest, ASmallCheckpointWithRoomForAnyPartOfItKeepsTheOldOne) {
  const TempFolder folder;
  EXPECT_EQ(in_child([&] { return save_with_too_little_room(folder, 256, 17); }), 0);
}

TEST(FullDiskTest, ALargeCheckpointWithRoomForAnyPartOfItKeepsTheOldOne) {
  const TempFolder folder;
  constexpr std::size_t kBytes = std::size_t{18} << 20;
  EXPECT_EQ(in_child([&] { return save_with_too_little_room(folder, kBytes, 3'000'001); }), 0);
}

}  // namespace
}  // namespace cairn
