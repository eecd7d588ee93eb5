#include "storage/local/links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "cairn/error.h"

#include "checkpoint/folder/list_checkpoints.h"
#include "checkpoint/plan/save_pipeline.h"
#include "storage/local/local_store.h"
#include "testing/faulty_file_system.h"
#include "testing/file_bytes.h"
#include "testing/sample_checkpoint.h"
#include "testing/sim_file_system.h"

namespace cairn {
namespace {

using testing::batch_of_sample;
using ::testing::ElementsAre;
using testing::FaultyFileSystem;
using testing::FileCall;
using testing::sample_checkpoint;
using testing::sample_info;
using testing::SimFileSystem;

const std::string kLinkPath = "/ckpt/latest";
const std::string kTextPath = kLinkPath + ".symlink";

void save_and_link(FileSystem& files, std::int64_t batch) {
  SavePipeline pipeline({.async = false, .store = local_store(files)});
  pipeline.submit({.value = sample_checkpoint(batch),
                   .path = "/ckpt/ba" + std::to_string(batch) + ".pt",
                   .latest = kLinkPath,
                   .info = sample_info(batch)});
}

std::string text_at(FileSystem& files, const std::string& path) {
  return std::string(as_text(testing::file_bytes(files, path).view));
}

void replace_file(FileSystem& files, const std::string& path, const std::string& bytes) {
  files.remove(path);
  files.create(path, {})->write(as_bytes(bytes));
}

class WithoutLinks : public ::testing::TestWithParam<int> {
 protected:
  WithoutLinks() { disk_.refuse_links(GetParam()); }
  SimFileSystem disk_;
};

INSTANTIATE_TEST_SUITE_P(Statuses, WithoutLinks, ::testing::Values(EPERM, ENOSYS, EOPNOTSUPP));

TEST_P(WithoutLinks, SavesWorkAndTheLinkIsComposersTextFile) {
  save_and_link(disk_, 1);
  save_and_link(disk_, 2);
  EXPECT_THAT(disk_.list("/ckpt"), ElementsAre("ba1.pt", "ba2.pt", "latest.symlink"));
  EXPECT_EQ(text_at(disk_, kTextPath), "ba2.pt");
  EXPECT_EQ(link_target(disk_, kLinkPath), "/ckpt/ba2.pt");
}

TEST_P(WithoutLinks, WhoeverOpensTheLinkGetsWhatItNames) {
  save_and_link(disk_, 3);
  for (const std::string& path : {kLinkPath, kTextPath}) {
    EXPECT_EQ(batch_of_sample(load(path, {.store = local_store(disk_)})), 3) << path;
    EXPECT_TRUE(verify(path, Verify::kFull, local_store(disk_)).ok()) << path;
  }
  const FolderListing listing = list_checkpoints("/ckpt", {.store = local_store(disk_)});
  ASSERT_EQ(listing.checkpoints.size(), 1U);
  EXPECT_THAT(listing.checkpoints.front().links, ElementsAre("latest"));
}

TEST_P(WithoutLinks, WhatLatestPointsAtIsNeverRemoved) {
  save_and_link(disk_, 1);
  SavePipeline pipeline({.async = false, .store = local_store(disk_)});
  pipeline.submit({.value = sample_checkpoint(2),
                   .path = "/ckpt/ba2.pt",
                   .latest = kLinkPath,
                   .remove_afterwards = {"/ckpt/ba1.pt", "/ckpt/ba2.pt"}});
  EXPECT_THAT(disk_.list("/ckpt"), ElementsAre("ba2.pt", "latest.symlink"));
}

TEST_P(WithoutLinks, AFaultAtAnyCallKeepsAMark) {
  for (std::uint64_t n = 1;; ++n) {
    SimFileSystem disk;
    disk.refuse_links(GetParam());
    save_and_link(disk, 1);
    FaultyFileSystem faulty(disk);
    faulty.fail(n, EIO);
    try {
      point_link(faulty, "/ckpt/ba2.pt", kLinkPath);
      ASSERT_GT(n, 5U);
      break;
    } catch (const StorageError&) {
      EXPECT_THAT(text_at(disk, kTextPath), ::testing::AnyOf("ba1.pt", "ba2.pt")) << "call " << n;
      EXPECT_THAT(disk.list("/ckpt"), ElementsAre("ba1.pt", "latest.symlink"));
    }
  }
}

// `cp -L` onto such a file system replaces the link by a copy of its target.
TEST_P(WithoutLinks, ACopyInPlaceOfTheLinkGoes) {
  save_and_link(disk_, 1);
  disk_.create(kLinkPath, {})->write(as_bytes("a copy"));
  save_and_link(disk_, 2);
  EXPECT_THAT(disk_.list("/ckpt"), ElementsAre("ba1.pt", "ba2.pt", "latest.symlink"));
  EXPECT_EQ(batch_of_sample(load(kLinkPath, {.store = local_store(disk_)})), 2);
}

TEST(LatestLinkTest, WhereThereAreLinksAgainTheTextFileGoes) {
  SimFileSystem disk;
  disk.refuse_links(EPERM);
  save_and_link(disk, 1);
  disk.refuse_links(0);
  save_and_link(disk, 2);
  EXPECT_THAT(disk.list("/ckpt"), ElementsAre("ba1.pt", "ba2.pt", "latest"));
  EXPECT_EQ(disk.read_link(kLinkPath), "ba2.pt");
}

// EPERM from a call other than the making of a link has another reason: in some folders only the
// owner of a file may replace it.
TEST(LatestLinkTest, OtherErrorsAreNoReasonForATextFile) {
  for (const auto& [call, status] :
       {std::pair(FileCall::kMakeLink, EIO), std::pair(FileCall::kMakeLink, EACCES),
        std::pair(FileCall::kRename, EPERM)}) {
    SimFileSystem disk;
    save_and_link(disk, 1);
    FaultyFileSystem faulty(disk);
    faulty.fail(call, 1, status);
    EXPECT_THROW(point_link(faulty, "/ckpt/ba2.pt", kLinkPath), StorageError);
    EXPECT_THAT(disk.list("/ckpt"), ElementsAre("ba1.pt", "latest"));
    EXPECT_EQ(disk.read_link(kLinkPath), "ba1.pt");
  }
}

TEST(LatestLinkTest, OnlyATextThatIsAPathIsFollowed) {
  SimFileSystem disk;
  disk.make_folders("/ckpt");
  EXPECT_EQ(read_link_file(disk, kTextPath), std::nullopt);
  for (const std::string& text : {std::string(), std::string("\n"), std::string("a\nb"),
                                  std::string("a\0b", 3), std::string(5000, 'a')}) {
    replace_file(disk, kTextPath, text);
    EXPECT_EQ(read_link_file(disk, kTextPath), std::nullopt) << text.substr(0, 20);
    EXPECT_THROW(load(kLinkPath, {.store = local_store(disk)}), Error);
  }
  replace_file(disk, kTextPath, "sub/ba1.pt\r\n");
  EXPECT_EQ(read_link_file(disk, kTextPath), "/ckpt/sub/ba1.pt");
  replace_file(disk, kTextPath, "/elsewhere/ba1.pt");
  EXPECT_EQ(read_link_file(disk, kTextPath), "/elsewhere/ba1.pt");
  disk.make_folders("/ckpt/folder.symlink");
  EXPECT_EQ(read_link_file(disk, "/ckpt/folder.symlink"), std::nullopt);
}

// A text file that names another text file, or itself, is followed only once: it leads nowhere.
TEST(LatestLinkTest, TextFilesAreFollowedOnce) {
  SimFileSystem disk;
  disk.make_folders("/ckpt");
  replace_file(disk, kTextPath, "latest");
  EXPECT_THROW(load(kLinkPath, {.store = local_store(disk)}), NotFoundError);
  replace_file(disk, kTextPath, "latest.symlink");
  EXPECT_THROW(load(kLinkPath, {.store = local_store(disk)}), Error);
}

}  // namespace
}  // namespace cairn
