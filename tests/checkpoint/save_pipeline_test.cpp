#include "checkpoint/plan/save_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <future>
#include <thread>

#include "cairn/error.h"

#include "checkpoint/plan/write_progress.h"
#include "io/file.h"
#include "storage/local/local_store.h"
#include "testing/faulty_file_system.h"
#include "testing/sample_checkpoint.h"
#include "testing/sim_file_system.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using testing::batch_of_sample;
using ::testing::ElementsAre;
using testing::FaultyFileSystem;
using testing::FileCall;
using ::testing::HasSubstr;
using testing::sample_checkpoint;
using testing::sample_info;
using testing::SimFileSystem;

const std::string kLatestLink = "/ckpt/latest";

std::string checkpoint_path(std::int64_t batch) {
  return "/ckpt/ba" + std::to_string(batch) + ".pt";
}

SaveJob request(std::int64_t batch) {
  return {.value = sample_checkpoint(batch),
          .path = checkpoint_path(batch),
          .latest = kLatestLink,
          .info = sample_info(batch)};
}

class SavePipelineTest : public ::testing::TestWithParam<bool> {
 protected:
  SavePipelineOptions options() { return {.async = GetParam(), .store = local_store(faulty_)}; }
  std::int64_t batch_at(const std::string& path) {
    return batch_of_sample(load(path, {.store = local_store(disk_)}));
  }

  SimFileSystem disk_;
  FaultyFileSystem faulty_{disk_};
};

INSTANTIATE_TEST_SUITE_P(SyncAndAsync, SavePipelineTest, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Async" : "Sync"; });

TEST_P(SavePipelineTest, SavesMovesTheLinkRemovesAndReports) {
  std::vector<SaveReport> reports;
  SavePipeline pipeline(options());
  for (std::int64_t batch = 1; batch <= 3; ++batch) {
    SaveJob r = request(batch);
    if (batch > 1) r.remove_afterwards = {checkpoint_path(batch - 1), "/ckpt/never_was.pt"};
    r.report = [&](const SaveReport& report) { reports.push_back(report); };
    pipeline.submit(std::move(r));
  }
  pipeline.wait();
  EXPECT_THAT(disk_.list("/ckpt"), ElementsAre("ba3.pt", "latest"));
  EXPECT_EQ(disk_.read_link(kLatestLink), "ba3.pt");
  EXPECT_EQ(batch_at(kLatestLink), 3);
  ASSERT_EQ(reports.size(), 3U);
  EXPECT_EQ(reports[2].path, checkpoint_path(3));
  EXPECT_EQ(reports[2].bytes, disk_.stat(checkpoint_path(3), true)->size);
  EXPECT_THAT(reports[2].removed, ElementsAre(checkpoint_path(2)));
}

TEST_P(SavePipelineTest, ConstantNamesAreNotRemovedAfterTheirOwnSave) {
  SavePipeline pipeline(options());
  for (std::int64_t batch = 1; batch <= 3; ++batch) {
    SaveJob r = request(batch);
    r.path = "/ckpt/same.pt";
    r.remove_afterwards = {"/ckpt/same.pt", "/ckpt/./same.pt", "/ckpt//same.pt"};
    pipeline.submit(std::move(r));
  }
  pipeline.wait();
  EXPECT_EQ(batch_at("/ckpt/same.pt"), 3);
}

// The same file has another path, for example, after a restart that spells its save_folder
// differently.
TEST_P(SavePipelineTest, TheirOtherPathsAreNotRemovedEither) {
  const testing::TempFolder folder;
  std::filesystem::create_directory(folder / "run");
  std::filesystem::create_directory_symlink(folder / "run", folder / "alias");
  SavePipeline pipeline({.async = GetParam()});
  SaveJob job = request(1);
  job.path = folder / "run/same.pt";
  job.latest = folder / "run/latest";
  job.remove_afterwards = {std::filesystem::relative(job.path), folder / "alias/same.pt"};
  pipeline.submit(std::move(job));
  pipeline.wait();
  EXPECT_EQ(batch_of_sample(load(folder / "run/same.pt")), 1);
}

TEST_P(SavePipelineTest, WhatLatestPointsAtIsNeverRemoved) {
  SavePipeline pipeline(options());
  pipeline.submit(request(1));
  SaveJob without_link = request(2);
  without_link.latest.clear();
  without_link.remove_afterwards = {};
  pipeline.submit(std::move(without_link));
  pipeline.wait();
  SaveJob r = request(3);
  r.remove_afterwards = {checkpoint_path(1), checkpoint_path(2), checkpoint_path(3), kLatestLink};
  pipeline.submit(std::move(r));
  pipeline.wait();
  EXPECT_EQ(batch_at(checkpoint_path(3)), 3);
}

TEST_P(SavePipelineTest, LinksInOtherFoldersAreRelative) {
  SavePipeline pipeline(options());
  SaveJob r = request(1);
  r.path = "/run/ckpt/ep0/ba1.pt";
  r.latest = "/run/ckpt/links/latest.pt";
  pipeline.submit(std::move(r));
  pipeline.wait();
  EXPECT_EQ(disk_.read_link("/run/ckpt/links/latest.pt"), "../ep0/ba1.pt");
  EXPECT_EQ(batch_at("/run/ckpt/links/latest.pt"), 1);
}

// Submits the job and waits. Returns the StorageError's status, or 0.
int status_of_save(SavePipeline& pipeline, SaveJob r) {
  try {
    pipeline.submit(std::move(r));
    pipeline.wait();
  } catch (const StorageError& e) {
    return e.status();
  }
  return 0;
}

TEST_P(SavePipelineTest, AFaultAtAnyCallKeepsACheckpointAndTheNextSaveWorks) {
  for (const int error : {ENOSPC, EDQUOT, EIO}) {
    for (std::uint64_t n = 1;; ++n) {
      SimFileSystem disk;
      FaultyFileSystem faulty(disk);
      SavePipeline pipeline({.async = GetParam(), .store = local_store(faulty)});
      ASSERT_EQ(status_of_save(pipeline, request(1)), 0);
      SaveJob second = request(2);
      second.remove_afterwards = {checkpoint_path(1)};
      bool reported = false;
      second.report = [&](const SaveReport&) { reported = true; };
      faulty.fail(n, error);
      const int status = status_of_save(pipeline, std::move(second));
      if (status == 0) break;  // The save makes fewer calls.
      ASSERT_EQ(status, error);

      const Value latest = load(kLatestLink, {.store = local_store(disk)});
      EXPECT_THAT(batch_of_sample(latest), ::testing::AnyOf(1, 2)) << "call " << n;
      EXPECT_TRUE(!reported || batch_of_sample(latest) == 2) << "call " << n;
      EXPECT_THAT(disk.list("/ckpt"), ::testing::IsSubsetOf({"ba1.pt", "ba2.pt", "latest"}));

      ASSERT_EQ(status_of_save(pipeline, request(3)), 0) << "call " << n;
      EXPECT_EQ(batch_of_sample(load(kLatestLink, {.store = local_store(disk)})), 3);
    }
  }
}

TEST_P(SavePipelineTest, AFailedRemovalIsReportedAndThrownAndTheOthersAreDone) {
  SavePipeline pipeline(options());
  pipeline.submit(request(1));
  pipeline.submit(request(2));
  pipeline.wait();
  SaveJob r = request(3);
  r.remove_afterwards = {checkpoint_path(1), checkpoint_path(2)};
  SaveReport report;
  r.report = [&](const SaveReport& done) { report = done; };
  faulty_.fail(FileCall::kRemoveUnlocked, 1, EIO);
  EXPECT_EQ(status_of_save(pipeline, std::move(r)), EIO);
  EXPECT_THAT(report.removed, ElementsAre(checkpoint_path(2)));
  EXPECT_EQ(batch_at(kLatestLink), 3);
}

// If ranks save together, no rank fails alone after a good save. The rank warns instead.
TEST_P(SavePipelineTest, WithoutKnowingWhatLatestPointsAtNothingIsRemoved) {
  for (const bool is_joint : {false, true}) {
    SimFileSystem disk;
    FaultyFileSystem faulty(disk);
    SavePipeline pipeline({.async = GetParam(), .store = local_store(faulty)});
    ASSERT_EQ(status_of_save(pipeline, request(1)), 0);
    SaveJob second = request(2);
    second.remove_afterwards = {checkpoint_path(1)};
    SaveReport report;
    second.report = [&](const SaveReport& done) { report = done; };
    second.is_of_all_ranks = is_joint;
    if (is_joint) {
      second.write = [&](ObjectStore& store, const SaveJob& save, const auto& point) {
        save_now(local_store(disk), {.value = save.value, .path = save.path, .info = save.info});
        point();
        return store.stat(save.path)->size;
      };
    }
    faulty.fail(FileCall::kReadLink, 1, EIO);
    EXPECT_EQ(status_of_save(pipeline, std::move(second)), is_joint ? 0 : EIO);
    EXPECT_EQ(report.path, checkpoint_path(2));
    EXPECT_THAT(report.removed, ::testing::IsEmpty());
    EXPECT_THAT(report.warning, HasSubstr(is_joint ? "no older checkpoint is removed" : ""));
    EXPECT_THAT(disk.list("/ckpt"), ElementsAre("ba1.pt", "ba2.pt", "latest"));
  }
}

// The run saves folders, and other programs have put files into them.
TEST_P(SavePipelineTest, ASuperfluousFolderWithFilesOfOthersStays) {
  const auto store = local_store(disk_);
  const auto write_folder = [&](const std::string& path) {
    const auto folder = store->begin_folder(path, false);
    for (const char* name : {".metadata", "__0_0.distcp"}) {
      const auto object = folder->begin(name, 1);
      object->write(as_bytes("x"));
      object->commit();
    }
    folder->commit();
    return std::uint64_t{2};
  };
  write_folder("/ckpt/ba1");
  write_folder("/ckpt/ba2");
  disk_.create("/ckpt/ba1/notes.txt", {})->close();
  SavePipeline pipeline(options());
  SaveReport report;
  pipeline.submit({.path = "/ckpt/ba3",
                   .remove_afterwards = {"/ckpt/ba1", "/ckpt/ba2"},
                   .write = [&](ObjectStore&, const SaveJob& job,
                                const auto&) { return write_folder(job.path); },
                   .is_of_all_ranks = true,
                   .report = [&](const SaveReport& done) { report = done; }});
  pipeline.wait();
  EXPECT_THAT(report.refused, ElementsAre("/ckpt/ba1"));
  EXPECT_THAT(report.removed, ElementsAre("/ckpt/ba2"));
  EXPECT_THAT(disk_.list("/ckpt/ba1"), ElementsAre(".metadata", "__0_0.distcp", "notes.txt"));
}

TEST(AsyncSavePipelineTest, TrainingMayChangeTensorsWhenSubmitReturns) {
  SimFileSystem disk;
  FaultyFileSystem faulty(disk);
  std::promise<void> changed;
  faulty.before_each([&](FileCall kind, std::uint64_t) {
    if (kind == FileCall::kCreate) changed.get_future().wait();
  });
  std::vector<float> memory(1000, 1.0F);
  const Value value = make_tensor(DType::kFloat32, {1000}, {std::as_bytes(std::span(memory)), {}});
  SavePipeline pipeline({.store = local_store(faulty)});
  pipeline.submit({.value = value, .path = "/a.pt"});
  std::fill(memory.begin(), memory.end(), 2.0F);
  changed.set_value();
  pipeline.wait();
  const std::vector<float> ones(1000, 1.0F);
  EXPECT_EQ(load("/a.pt", {.store = local_store(disk)}),
            Value(make_tensor(DType::kFloat32, {1000}, {std::as_bytes(std::span(ones)), {}})));
}

TEST(AsyncSavePipelineTest, TheNextSaveWaitsForThePendingOne) {
  SimFileSystem disk;
  SavePipeline pipeline({.max_pending = 1, .store = local_store(disk)});
  std::atomic<int> done = 0;
  for (int i = 1; i <= 20; ++i) {
    SaveJob r = request(i);
    r.report = [&](const SaveReport&) { ++done; };
    pipeline.submit(std::move(r));
    EXPECT_GE(done, i - 1);
  }
  pipeline.wait();
  EXPECT_EQ(done, 20);
}

TEST(AsyncSavePipelineTest, MorePendingSavesDoNotWait) {
  SimFileSystem disk;
  FaultyFileSystem faulty(disk);
  std::promise<void> submitted;
  std::shared_future<void> all_submitted = submitted.get_future().share();
  faulty.before_each([=](FileCall kind, std::uint64_t) {
    if (kind == FileCall::kCreate) all_submitted.wait();
  });
  SavePipeline pipeline({.max_pending = 3, .store = local_store(faulty)});
  for (int i = 1; i <= 3; ++i) {
    pipeline.submit(request(i));  // Would hang here if submit() waited.
  }
  submitted.set_value();
  pipeline.wait();
  EXPECT_EQ(disk.read_link(kLatestLink), "ba3.pt");
}

// The second save's list of superfluous checkpoints was made when the previous save was still to be
// kept.
TEST(AsyncSavePipelineTest, ASaveBehindOneThatFailedRemovesNothing) {
  SimFileSystem disk;
  FaultyFileSystem faulty(disk);
  SavePipeline pipeline({.max_pending = 2, .store = local_store(faulty)});
  pipeline.submit(request(1));
  pipeline.wait();
  std::promise<void> submitted;
  std::shared_future<void> all_submitted = submitted.get_future().share();
  faulty.before_each([=](FileCall kind, std::uint64_t) {
    if (kind == FileCall::kCreate) all_submitted.wait();
  });
  const auto keeping_two = [](int batch) {
    SaveJob job = request(batch);
    job.remove_afterwards = {checkpoint_path(batch - 2)};
    return job;
  };
  faulty.fail(FileCall::kRename, 1, EIO);
  pipeline.submit(request(2));
  pipeline.submit(keeping_two(3));
  submitted.set_value();
  EXPECT_THROW(pipeline.wait(), StorageError);
  EXPECT_THAT(disk.list("/ckpt"), ElementsAre("ba1.pt", "ba3.pt", "latest"));
  pipeline.submit(
      {.value = 1, .path = checkpoint_path(4), .remove_afterwards = {checkpoint_path(1)}});
  pipeline.wait();
  EXPECT_THAT(disk.list("/ckpt"), ElementsAre("ba3.pt", "ba4.pt", "latest"));
}

// Calls `act` when it is copied.
class StorageThatIsCopied final : public Storage {
 public:
  explicit StorageThatIsCopied(std::function<void()> act)
      : Storage(4, "cpu"), act_(std::move(act)) {}

 protected:
  void read(std::uint64_t /*offset*/, std::span<std::byte> into) const override {
    act_();
    std::ranges::fill(into, std::byte{1});
  }

 private:
  std::function<void()> act_;
};

// Copying a large state takes seconds, so the previous save may fail meanwhile.
TEST(AsyncSavePipelineTest, NorDoesOneThatIsBeingCopiedWhenTheOneBeforeFails) {
  SimFileSystem disk;
  FaultyFileSystem faulty(disk);
  SavePipeline pipeline({.max_pending = 2, .store = local_store(faulty)});
  pipeline.submit(request(1));
  pipeline.wait();
  std::promise<void> copying;
  std::shared_future<void> is_copied = copying.get_future().share();
  faulty.before_each([=](FileCall kind, std::uint64_t) {
    if (kind == FileCall::kCreate) is_copied.wait();
  });
  faulty.fail(FileCall::kRename, 1, EIO);
  pipeline.submit(request(2));
  const auto wait_for_failure = [&] {
    copying.set_value();
    for (bool has_failed = false; !has_failed; std::this_thread::yield()) {
      try {
        pipeline.throw_error();
      } catch (const StorageError&) {
        has_failed = true;
      }
    }
  };
  const TensorView tensor = {
      .dtype = DType::kFloat32,
      .shape = {1},
      .strides = {1},
      .storage = std::make_shared<const StorageThatIsCopied>(wait_for_failure)};
  pipeline.submit(
      {.value = tensor, .path = checkpoint_path(3), .remove_afterwards = {checkpoint_path(1)}});
  pipeline.wait();
  EXPECT_THAT(disk.list("/ckpt"), ElementsAre("ba1.pt", "ba3.pt", "latest"));
}

TEST(AsyncSavePipelineTest, AnErrorIsThrownOnceByTheNextSubmitWhichDoesNotSave) {
  SimFileSystem disk;
  FaultyFileSystem faulty(disk);
  SavePipeline pipeline({.store = local_store(faulty)});
  faulty.fail(FileCall::kRename, 1, EIO);
  pipeline.submit(request(1));
  try {
    pipeline.submit(request(2));
    FAIL() << "no error";
  } catch (const StorageError& e) {
    EXPECT_THAT(e.what(), HasSubstr("saving /ckpt/ba1.pt"));
  }
  pipeline.wait();
  EXPECT_THAT(disk.list("/ckpt"), ::testing::IsEmpty());
  pipeline.submit(request(3));
  pipeline.wait();
  EXPECT_THAT(disk.list("/ckpt"), ElementsAre("ba3.pt", "latest"));
}

TEST(AsyncSavePipelineTest, AValueThatCannotBeWrittenIsThrownAtWait) {
  SimFileSystem disk;
  SavePipeline pipeline({.store = local_store(disk)});
  pipeline.submit({.value = 1, .path = "/a.zip"});
  EXPECT_THROW(pipeline.wait(), UsageError);
  EXPECT_NO_THROW(pipeline.wait());
}

TEST(AsyncSavePipelineTest, TheDestructorFinishesWhatIsUnderWay) {
  SimFileSystem disk;
  {
    SavePipeline pipeline({.max_pending = 2, .store = local_store(disk)});
    pipeline.submit(request(1));
    pipeline.submit(request(2));
  }
  EXPECT_THAT(disk.list("/ckpt"), ElementsAre("ba1.pt", "ba2.pt", "latest"));
}

TEST(AsyncSavePipelineTest, NoPendingSavesIsAUsageError) {
  EXPECT_THROW(SavePipeline({.max_pending = 0}), UsageError);
}

// A later attempt is needed, for example, if a far store lost the bytes that were sent.
TEST(WriteProgressTest, WhatALaterAttemptWritesAgainIsToldOfOnce) {
  std::vector<std::uint64_t> told;
  const SaveJob job{.on_progress = [&](std::uint64_t more, std::uint64_t total) {
    EXPECT_EQ(total, 60U);
    told.push_back(more);
  }};
  WriteProgress progress(job, 60);
  const auto first = progress.of_attempt();
  first(10);
  first(20);
  const auto second = progress.of_attempt();
  for (const std::uint64_t more : {10, 20, 30}) {
    second(more);
  }
  EXPECT_THAT(told, ElementsAre(10, 20, 30));
}

}  // namespace
}  // namespace cairn
