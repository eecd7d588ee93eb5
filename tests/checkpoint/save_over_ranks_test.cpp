// All ranks of a job plan, write and publish a checkpoint together. Any number of ranks reads it.
#include "checkpoint/ranks/save_over_ranks.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/sharded.h"
#include "cairn/error.h"

#include "storage/local/local_store.h"
#include "testing/sharded_folder.h"
#include "testing/sim_job.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::box_of_numbers;
using ::testing::Each;
using testing::Fibers;
using ::testing::HasSubstr;
using testing::part_of_numbers;
using testing::SimFault;
using testing::SimFileSystem;
using testing::SimJob;
using testing::slice_of;

using Shape = std::vector<std::int64_t>;

const std::string kCheckpoint = "/run/ep0-ba7";
const Shape kWeight = {7, 3};

dcp::Box rows(std::int64_t rank, std::int64_t ranks) {
  const auto [offset, size] = slice_of(kWeight[0], rank, ranks);
  return {{offset, 0}, {size, kWeight[1]}};
}

// A weight that is sharded over the ranks, and state that all ranks have.
Value state_of(std::int64_t rank, std::int64_t ranks) {
  const dcp::Box all = {{0}, {5}};
  TensorView bias = part_of_numbers({5}, all, 100);
  bias.part = nullptr;
  return Dict(
      {{"state", Dict({{"model", Dict({{"weight", part_of_numbers(kWeight, rows(rank, ranks), 0)},
                                       {"bias", bias}})},
                       {"batch", 7}})}});
}

class SaveOverRanksTest : public ::testing::Test {
 protected:
  using Change = std::function<void(SimJob::Rank&, RankSaveJob&)>;

  // The result of each rank: "ok", or its error.
  std::vector<std::string> save(std::int64_t ranks, const Change& change = nullptr,
                                std::vector<SimFault> faults = {}) {
    SimJob job(fibers_, {.world_size = ranks,
                         .disks = {disk_.get()},
                         .seed = ++seed_,
                         .faults = std::move(faults)});
    std::vector<std::string> heard(static_cast<std::size_t>(ranks));
    job.start([&](SimJob::Rank& rank) {
      RankSaveJob mine{.path = kCheckpoint, .tree = state_of(rank.number(), ranks)};
      mine.own = {{"rng", Dict({{"torch", rank.number()}})}};
      if (change) change(rank, mine);
      std::string& outcome = heard[static_cast<std::size_t>(rank.number())];
      try {
        ObjectStore& store = store_ ? *store_ : *rank.store;
        bytes_ = save_over_ranks(rank.table, store, mine).bytes;
        outcome = "ok";
      } catch (const Error& e) {
        outcome = e.what();
      }
    });
    fibers_.run();
    return heard;
  }

  Checkpoint open() { return open_checkpoint(kCheckpoint, store_ ? store_ : local_store(*disk_)); }

  // Expects that each of `ranks` ranks can read its part, whichever rank wrote that part.
  void expect_readable_by(std::int64_t ranks) {
    const Checkpoint checkpoint = open();
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const dcp::Box box = rows(rank, ranks);
      const std::vector<std::int32_t> expected = box_of_numbers(kWeight, box, 0);
      std::vector<std::int32_t> read(expected.size());
      const VerifyReport report =
          read_parts(checkpoint, {{.name = "state.model.weight",
                                   .dtype = DType::kInt32,
                                   .global_shape = kWeight,
                                   .offsets = box.offsets,
                                   .shape = box.sizes,
                                   .into = std::as_writable_bytes(std::span(read))}});
      EXPECT_TRUE(report.ok());
      EXPECT_EQ(read, expected) << rank << " of " << ranks;
    }
    const Value value = load(checkpoint);
    EXPECT_EQ(value.at("state").at("batch"), Value(7));
  }

  std::uint64_t seed_ = 0;
  std::uint64_t bytes_ = 0;
  Fibers fibers_;
  std::unique_ptr<SimFileSystem> disk_ = std::make_unique<SimFileSystem>();
  std::shared_ptr<ObjectStore> store_;
};

TEST_F(SaveOverRanksTest, AnyNumberOfRanksReadsWhatAnyOtherSaved) {
  // With nine ranks, two have no part of the weight.
  for (const std::int64_t saved_by : {1, 2, 3, 9}) {
    disk_ = std::make_unique<SimFileSystem>();
    ASSERT_THAT(save(saved_by), Each("ok"));
    for (const std::int64_t read_by : {1, 2, 4}) {
      expect_readable_by(read_by);
    }
    const Value rng = load(open()).at("rng");
    ASSERT_EQ(rng.as_items().size(), static_cast<std::size_t>(saved_by));
    EXPECT_EQ(rng.as_items().back().at("torch"), Value(saved_by - 1));
  }
}

TEST_F(SaveOverRanksTest, WhatSeveralHaveIsWrittenOnce) {
  ASSERT_THAT(save(1), Each("ok"));
  const std::uint64_t alone = bytes_;
  disk_ = std::make_unique<SimFileSystem>();
  ASSERT_THAT(save(2,
                   [](SimJob::Rank& rank, RankSaveJob& job) {
                     job.tree = state_of(0, 1);  // Both ranks have everything.
                     job.replica = static_cast<std::uint32_t>(rank.number());
                     job.own = {};
                   }),
              Each("ok"));
  EXPECT_LT(bytes_, alone);  // Without the random state.
  EXPECT_EQ(open().verify(Verify::kFull).ok(), true);
}

TEST_F(SaveOverRanksTest, InAStoreTheFilesHaveTheNamesThatTheMetadataSays) {
  store_ = memory_store();
  ASSERT_THAT(save(3), Each("ok"));
  expect_readable_by(2);
  EXPECT_TRUE(open().verify(Verify::kFull).ok());
  ASSERT_THAT(save(2, [](SimJob::Rank&, RankSaveJob& job) { job.overwrite = true; }), Each("ok"));
  expect_readable_by(3);
}

TEST_F(SaveOverRanksTest, PartsThatMakeNoStateAreOneErrorBeforeAnythingIsWritten) {
  const auto heard = save(3, [](SimJob::Rank& rank, RankSaveJob& job) {
    // Two ranks have the same rows, and no rank has the last rows.
    if (rank.number() == 2) job.tree = state_of(1, 3);
  });
  EXPECT_THAT(heard, Each(AllOf(HasSubstr("state.model.weight"), HasSubstr("planning"))));
  EXPECT_FALSE(disk_->stat("/run", false));
  ASSERT_THAT(save(3), Each("ok"));
}

TEST_F(SaveOverRanksTest, WhatOneRankCannotDescribeIsAnErrorOnAllThatNamesIt) {
  const auto heard = save(2, [](SimJob::Rank& rank, RankSaveJob& job) {
    TensorView part = part_of_numbers(kWeight, rows(1, 2), 0);
    // After the end of the tensor.
    part.part = std::make_shared<const TensorPart>(TensorPart{kWeight, {6, 0}});
    if (rank.number() == 1) job.tree = Dict({{"state", Dict({{"weight", part}})}});
  });
  EXPECT_THAT(heard, Each(HasSubstr("rank 1")));
  EXPECT_EQ(heard[0], heard[1]);
}

TEST_F(SaveOverRanksTest, ARankThatDiesAtAnyStepIsNamedOrTheCheckpointIsWhole) {
  for (std::uint64_t step = 1; step < 60; ++step) {
    disk_ = std::make_unique<SimFileSystem>();
    const auto heard =
        save(2, nullptr, {{.kind = SimFault::Kind::kCrash, .rank = 1, .step = step}});
    if (heard[0] == "ok") {
      EXPECT_TRUE(open().verify(Verify::kFull).ok()) << step;
      expect_readable_by(1);
    } else {
      EXPECT_THAT(heard[0], HasSubstr("rank 1")) << step;
      EXPECT_FALSE(disk_->stat(kCheckpoint, false)) << step;
    }
  }
}

}  // namespace
}  // namespace cairn
