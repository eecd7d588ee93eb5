#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"

#include "base/file.h"
#include "testing/faulty_file_system.h"
#include "testing/sample_checkpoint.h"
#include "testing/sim_file_system.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::FaultyFileSystem;
using testing::FileCall;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::sample_checkpoint;
using testing::sample_info;
using testing::SimFileSystem;

class FindLatestTest : public ::testing::Test {
 protected:
  void save_sample(std::int64_t batch, const std::string& path) {
    save(sample_checkpoint(batch), path, {.info = sample_info(batch), .files = &disk_});
  }
  std::string name(std::int64_t batch) const {
    return "/ckpt/ep" + std::to_string(batch / 10) + "-ba" + std::to_string(batch) + "-rank0.pt";
  }
  void save_sample(std::int64_t batch) { save_sample(batch, name(batch)); }
  void write(const std::string& path, const std::string& bytes) {
    disk_.create(path, {})->write(as_bytes(bytes));
  }
  void damage(const std::string& path) {
    std::string bytes(as_text(disk_.map(path).view));
    bytes[bytes.size() / 3] ^= 1;
    disk_.remove(path);
    write(path, bytes);
  }

  // The path found; "nothing".
  std::string find(FindOptions options = {}, const std::string& folder = "/ckpt") {
    skipped_.clear();
    options.on_skip = [this](const std::string& path, const std::string& why) {
      skipped_.push_back(path + ": " + why);
    };
    if (options.files == nullptr) options.files = &disk_;
    const auto found = find_latest(folder, options);
    if (!found) return "nothing";
    EXPECT_TRUE(found->report.ok());
    timestamp_ = found->timestamp;
    return found->path;
  }

  SimFileSystem disk_;
  std::vector<std::string> skipped_;
  Timestamp timestamp_;
};

TEST_F(FindLatestTest, NoFolderAndAnEmptyFolderHoldNothing) {
  EXPECT_EQ(find(), "nothing");
  disk_.make_folders("/ckpt");
  EXPECT_EQ(find(), "nothing");
  EXPECT_THAT(skipped_, IsEmpty());
}

TEST_F(FindLatestTest, TheFurthestInTrainingWinsNotTheNewestFile) {
  save_sample(20);
  save_sample(100);
  save_sample(9);
  EXPECT_EQ(find(), name(100));
  EXPECT_EQ(timestamp_, *sample_info(100).timestamp);
}

TEST_F(FindLatestTest, WhatTheFileSaysCountsNotItsName) {
  save_sample(5, name(900));
  save_sample(6, name(1));
  EXPECT_EQ(find(), name(1));
}

TEST_F(FindLatestTest, OfEquallyFarOnesTheLaterFileWins) {
  save_sample(5, name(8));
  save_sample(5, name(7));
  EXPECT_EQ(find(), name(7));
}

TEST_F(FindLatestTest, DamagedOnesArePassedOverWithALineAndKept) {
  save_sample(1);
  save_sample(2);
  save_sample(3);
  damage(name(3));
  damage(name(2));
  const auto before = disk_.list("/ckpt");
  EXPECT_EQ(find(), name(1));
  ASSERT_EQ(skipped_.size(), 2U);
  EXPECT_THAT(skipped_[0], ::testing::StartsWith(name(3) + ": "));
  EXPECT_THAT(skipped_[1], ::testing::StartsWith(name(2) + ": "));
  EXPECT_THAT(skipped_, ::testing::Each(::testing::Not(HasSubstr("\n"))));
  EXPECT_EQ(disk_.list("/ckpt"), before);
}

TEST_F(FindLatestTest, ForeignAndWeightsOnlyFilesArePassedOver) {
  save_sample(1);
  write(name(2), "");
  write(name(3), "not a checkpoint at all");
  save(sample_checkpoint(4), name(4), {.info = {.kind = "weights"}, .files = &disk_});
  save(Dict{{"mine", 1}}, name(5), {.files = &disk_});
  disk_.make_folders(name(6));
  EXPECT_EQ(find(), name(1));
  EXPECT_THAT(skipped_,
              ElementsAre(HasSubstr("ba2"), HasSubstr("ba3"), HasSubstr("not hold the whole state"),
                          HasSubstr("not hold the whole state")));
  EXPECT_NE(find({.full_state_only = false}), "nothing");
}

TEST_F(FindLatestTest, OtherNamesAreNoCandidatesUnlessTheLatestLinkPointsThere) {
  save_sample(1);
  save_sample(50, "/ckpt/precious.pt");
  save_sample(60, "/ckpt/ep6-ba60-rank1.pt");
  save_sample(70);
  disk_.rename(name(70), "/ckpt/.cairn-tmp-ep7-ba70-rank0.pt-0123456789abcdef", true);
  EXPECT_EQ(find(), name(1));
  disk_.make_link("precious.pt", "/ckpt/latest-rank0.pt");
  EXPECT_EQ(find(), "/ckpt/precious.pt");
  EXPECT_EQ(find({.latest_filename = ""}), name(1));
}

TEST_F(FindLatestTest, TheLatestLinkIsAHintAndNeverAnObstacle) {
  save_sample(1);
  save_sample(2);
  disk_.make_link("ep0-ba1-rank0.pt", "/ckpt/latest-rank0.pt");  // behind
  EXPECT_EQ(find(), name(2));
  disk_.remove("/ckpt/latest-rank0.pt");
  disk_.make_link("gone.pt", "/ckpt/latest-rank0.pt");  // dangling
  EXPECT_EQ(find(), name(2));
  disk_.remove("/ckpt/latest-rank0.pt");
  disk_.make_link("latest-rank0.pt", "/ckpt/latest-rank0.pt");  // a loop
  EXPECT_EQ(find(), name(2));
  disk_.remove("/ckpt/latest-rank0.pt");
  save_sample(3, "/ckpt/latest-rank0.pt");  // a file, as a download leaves it
  EXPECT_EQ(find(), "/ckpt/latest-rank0.pt");
}

TEST_F(FindLatestTest, ConstantNamesAndNamesWithFoldersAreFound) {
  save_sample(4, "/ckpt/checkpoint");
  EXPECT_EQ(find({.filename = "checkpoint"}), "/ckpt/checkpoint");
  save_sample(5, "/ckpt/ep0/ba5.pt");
  save_sample(16, "/ckpt/ep1/ba16.pt");
  write("/ckpt/ep1/other", "");
  EXPECT_EQ(find({.filename = "ep{epoch}/ba{batch}.pt"}), "/ckpt/ep1/ba16.pt");
  disk_.make_folders("/ckpt/links");
  disk_.make_link("../ep0/ba5.pt", "/ckpt/links/latest.pt");
  EXPECT_EQ(find({.filename = "checkpoint", .latest_filename = "links/latest.pt"}),
            "/ckpt/ep0/ba5.pt");
}

TEST_F(FindLatestTest, FolderAndNamesMayHoldTheRunName) {
  save_sample(4, "/runs/mine/mine-ba4.pt");
  save_sample(9, "/runs/mine/other-ba9.pt");
  EXPECT_EQ(find({.filename = "{run_name}-ba{batch}.pt", .run_name = "mine"}, "/runs/{run_name}"),
            "/runs/mine/mine-ba4.pt");
}

TEST_F(FindLatestTest, CheckpointsOfAnotherRunArePassedOverWhenAsked) {
  save_sample(1);
  save(sample_checkpoint(2), name(2), {.info = {.kind = "full"}, .files = &disk_});
  CheckpointInfo other = sample_info(3);
  other.run_name = "other";
  save(sample_checkpoint(3), name(3), {.info = other, .files = &disk_});
  std::vector<std::string> others;
  FindOptions options{.run_name = "sample", .full_state_only = false};
  options.on_other_run = [&](const std::string& path, const std::string& run_name) {
    others.push_back(path + " of " + run_name);
  };
  EXPECT_EQ(find(options), name(1));
  EXPECT_THAT(others, ElementsAre(name(3) + " of other"));
  EXPECT_THAT(skipped_, IsEmpty()) << "one that does not say whose it is may be anybody's";
  options.on_other_run = nullptr;
  EXPECT_EQ(find(options), name(3));
}

// On a file system without symbolic links the link is Composer's text file.
TEST_F(FindLatestTest, TheLatestLinkMayBeATextFile) {
  save_sample(7, "/ckpt/somewhere-else.pt");
  write("/ckpt/latest-rank0.pt.symlink", "somewhere-else.pt");
  EXPECT_EQ(find(), "/ckpt/somewhere-else.pt");
  for (const std::string nonsense : {"", "gone.pt", "a\nb", "latest-rank0.pt.symlink"}) {
    disk_.remove("/ckpt/latest-rank0.pt.symlink");
    write("/ckpt/latest-rank0.pt.symlink", nonsense);
    EXPECT_EQ(find(), "nothing") << nonsense;
  }
  save_sample(3);
  EXPECT_EQ(find(), name(3));
}

TEST_F(FindLatestTest, CheckpointsOfComposerAreFoundByTheirTimestamp) {
  const std::string folder = CAIRN_TEST_DATA "/composer-0.33/adamw_cosine";
  EXPECT_EQ(find({.files = &posix_file_system()}, folder), folder + "/ep2-ba15-rank0.pt");
  EXPECT_EQ(timestamp_.batch, 15);
  EXPECT_EQ(timestamp_.epoch, 2);
  EXPECT_THAT(skipped_, IsEmpty());
  const VerifyReport report = verify(folder + "/ep0-ba3-rank0.pt");
  EXPECT_TRUE(report.ok());
  EXPECT_FALSE(report.has_manifest);
  EXPECT_THAT(report.summary(), HasSubstr("all records match their CRC-32"));
}

TEST_F(FindLatestTest, AnUnreadableCandidateDoesNotEndTheSearch) {
  save_sample(1);
  save_sample(2);
  FaultyFileSystem faulty(disk_);
  faulty.fail(FileCall::kMap, 3, EIO);  // the verification of the newest
  EXPECT_EQ(find({.files = &faulty}), name(1));
  EXPECT_THAT(skipped_, ElementsAre(HasSubstr("errno 5")));
}

TEST_F(FindLatestTest, AFileInPlaceOfTheFolderIsAUsageError) {
  write("/ckpt", "a file");
  EXPECT_THROW(find(), UsageError);
}

}  // namespace
}  // namespace cairn
