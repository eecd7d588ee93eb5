#include "checkpoint/search/search_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/names/run_forms.h"
#include "io/file.h"
#include "storage/local/local_store.h"
#include "testing/file_bytes.h"
#include "testing/sample_checkpoint.h"
#include "testing/sim_file_system.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::sample_checkpoint;
using testing::sample_info;
using testing::SimFileSystem;

TEST(RunFormsTest, EachFormHasItsNames) {
  const auto texts = [](const std::string& filename) {
    std::vector<std::string> all;
    for (const NameFormat& format : names_of_forms(filename, kShardedFolders))
      all.push_back(format.text());
    return all;
  };
  EXPECT_THAT(texts("a/ba{batch}-rank{rank}.pt"),
              ElementsAre("a/ba{batch}-rank{rank}.pt", "a/ep{epoch}-ba{batch}",
                          "a/ba{batch}-rank{rank}.pt.tar"));
  EXPECT_THAT(texts("ep{epoch}.tar.gz"), ElementsAre("ep{epoch}.tar.gz", "ep{epoch}-ba{batch}"));
  EXPECT_THAT(texts("ep{epoch}-ba{batch}"),
              ElementsAre("ep{epoch}-ba{batch}", "ep{epoch}-ba{batch}.tar"));
}

class SearchRunTest : public ::testing::Test {
 protected:
  void save_sample(std::int64_t batch, const std::string& name, CheckpointInfo info) {
    save(sample_checkpoint(batch), "/ckpt/" + name, {.info = std::move(info), .store = store_});
  }
  void save_sample(std::int64_t batch, const std::string& name) {
    save_sample(batch, name, sample_info(batch));
  }
  void damage(const std::string& name) {
    std::string bytes(as_text(testing::file_bytes(disk_, "/ckpt/" + name).view));
    bytes[bytes.size() / 3] ^= 1;
    disk_.remove("/ckpt/" + name);
    disk_.create("/ckpt/" + name, {})->write(as_bytes(bytes));
  }
  // The path that is found, or "anew" if the run begins anew, or the refusal.
  std::string search(const std::string& run_name = "sample", bool may_begin_anew = false) {
    skipped_.clear();
    RunSearch search{.places = {{.store = store_,
                                 .folder = "/ckpt",
                                 .filename = "ep{epoch}-ba{batch}-rank{rank}.pt",
                                 .latest_filename = "latest-rank{rank}.pt",
                                 .run_name = run_name}},
                     .may_begin_anew = may_begin_anew,
                     .verify = Verify::kFull};
    search.on_skip = [&](const std::string& path, const std::string& why) {
      skipped_.push_back(path + ": " + why);
    };
    const RunAnswer answer = search_run(search);
    if (answer.found) return answer.found->path;
    return answer.refusal.empty() ? "anew" : answer.refusal;
  }

  SimFileSystem disk_;
  std::shared_ptr<ObjectStore> store_ = local_store(disk_);
  std::vector<std::string> skipped_;
};

TEST_F(SearchRunTest, OnlyTheWholeStateOfARunIsGoneOnFrom) {
  EXPECT_EQ(search(), "anew") << "there is no folder";
  save_sample(1, "ep0-ba1-rank0.pt");
  save_sample(2, "ep0-ba2-rank0.pt", {.kind = "weights"});
  save(Dict{{"step", 3}}, "/ckpt/ep0-ba3-rank0.pt", {.store = store_});
  EXPECT_EQ(search(), "/ckpt/ep0-ba1-rank0.pt");
  EXPECT_THAT(skipped_, ElementsAre(AllOf(HasSubstr("ba3"), HasSubstr("the whole state")),
                                    AllOf(HasSubstr("ba2"), HasSubstr("the whole state"))));
  disk_.remove("/ckpt/ep0-ba1-rank0.pt");
  EXPECT_EQ(search(), "anew");
}

// Checkpoints under names that the run used earlier: in subfolders, or among many newer files.
TEST_F(SearchRunTest, WholeCheckpointsInFoldersBelowAndBehindOtherFilesRefuseToBeginAnew) {
  save_sample(3, "ep1/ba3.pt");
  EXPECT_THAT(search(), AllOf(HasSubstr("/ckpt/ep1/ba3.pt is a whole checkpoint of the run"),
                              HasSubstr("it is not in the folder /ckpt")));
  EXPECT_EQ(search("another run"), "anew");
  disk_.remove("/ckpt/ep1/ba3.pt");
  EXPECT_EQ(search(), "anew");
  save_sample(4, "b4.pt");
  for (int i = 0; i < 70; ++i)
    disk_.create("/ckpt/log." + std::to_string(i), {});
  EXPECT_THAT(search(), HasSubstr("/ckpt/b4.pt is a whole checkpoint of the run"));
}

TEST_F(SearchRunTest, AWholeCheckpointOfTheRunThatIsNotTakenRefusesToBeginAnew) {
  save_sample(4, "by-hand.pt");
  EXPECT_THAT(search(), AllOf(HasSubstr("/ckpt/by-hand.pt is a whole checkpoint of the run "
                                        "\"sample\" (epoch 0, batch 4)"),
                              HasSubstr("made from none of \"ep{epoch}-ba{batch}-rank{rank}.pt\""),
                              HasSubstr("autoresume_may_begin_anew")));
  EXPECT_EQ(search("sample", /*may_begin_anew=*/true), "anew");
  EXPECT_EQ(search("another"), "anew") << "it is not of this run";
  damage("by-hand.pt");
  EXPECT_EQ(search(), "anew") << "a damaged checkpoint is nothing to lose";
}

TEST_F(SearchRunTest, WhatIsNoWholeStateIsNothingToLose) {
  save_sample(4, "weights.pt", {.kind = "weights", .run_name = "sample"});
  save(Dict{{"step", 3}}, "/ckpt/value.pt", {.store = store_});
  save(Dict{{"state", Dict{}}}, "/ckpt/lies.pt", {.info = sample_info(9), .store = store_});
  EXPECT_EQ(search(), "anew");
}

// Loading the checkpoint failed, but every byte of it is good.
TEST_F(SearchRunTest, OneThatCouldNotBeLoadedIsNotLeftBehindWhenItIsWhole) {
  save_sample(4, "ep0-ba4-rank0.pt");
  RunSearch search{.places = {{.store = store_,
                               .folder = "/ckpt",
                               .filename = "ep{epoch}-ba{batch}-rank{rank}.pt",
                               .latest_filename = {},
                               .run_name = "sample"}},
                   .except = {{store_, "/ckpt/ep0-ba4-rank0.pt", "no memory for it"}}};
  EXPECT_THAT(search_run(search).refusal, HasSubstr("cannot go on from it: no memory for it"));
}

TEST_F(SearchRunTest, ACheckpointOfAnotherRunWhoseNameThisOneWouldWriteRefuses) {
  save_sample(4, "ep0-ba4-rank0.pt");
  EXPECT_THAT(search("mine"), AllOf(HasSubstr("has no checkpoint of the run \"mine\""),
                                    HasSubstr("of the run \"sample\"")));
  EXPECT_THAT(search("mine", /*may_begin_anew=*/true), HasSubstr("has no checkpoint of the run"))
      << "it would be written over";
  EXPECT_EQ(search(""), "/ckpt/ep0-ba4-rank0.pt");
}

TEST_F(SearchRunTest, OfSeveralPlacesTheFurthestWinsAndOfEqualOnesTheFirst) {
  save_sample(4, "ep0-ba4-rank0.pt");
  const auto far = memory_store();
  RunSearch search;
  for (const auto& store : {store_, far}) {
    search.places.push_back({.store = store,
                             .folder = "/ckpt",
                             .filename = "ep{epoch}-ba{batch}-rank{rank}.pt",
                             .latest_filename = {},
                             .run_name = "sample"});
  }
  EXPECT_EQ(search_run(search).place, 0U);
  save(sample_checkpoint(4), "/ckpt/ep0-ba4-rank0.pt", {.info = sample_info(4), .store = far});
  EXPECT_EQ(search_run(search).place, 0U);
  save(sample_checkpoint(5), "/ckpt/ep0-ba5-rank0.pt", {.info = sample_info(5), .store = far});
  EXPECT_EQ(search_run(search).place, 1U);
}

}  // namespace
}  // namespace cairn
