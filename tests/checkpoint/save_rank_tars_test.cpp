// Checkpoints with one file per rank: either all ranks' files appear, or no file appears.
#include "checkpoint/ranks/save_rank_tars.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/storage/object_store.h"

#include "checkpoint/open/source.h"
#include "storage/local/local_store.h"
#include "testing/sim_job.h"
#include "testing/watched_store.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::Fibers;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::SimFault;
using testing::SimFileSystem;
using testing::SimJob;

std::string path_of(std::int64_t batch, std::int64_t rank) {
  return "/run/ba" + std::to_string(batch) + "-rank" + std::to_string(rank) + ".tar";
}

class SaveRankTarsTest : public ::testing::Test {
 protected:
  // The result of each rank: "ok", or its error. "" if the rank died.
  std::vector<std::string> save(std::int64_t ranks, std::vector<SimFault> faults = {},
                                const std::function<void(RankTarsJob&)>& change = nullptr) {
    SimJob job(fibers_, {.world_size = ranks,
                         .disks = {disk_.get()},
                         .seed = ++seed_,
                         .faults = std::move(faults)});
    std::vector<std::string> heard(static_cast<std::size_t>(ranks));
    attempts_.assign(static_cast<std::size_t>(ranks), "");
    job.start([&](SimJob::Rank& rank) {
      const auto number = static_cast<std::size_t>(rank.number());
      RankTarsJob mine{.path = path_of(7, rank.number()), .stage = 2};
      mine.checkpoint = Dict{{"state", Dict{{"model", Dict{}}, {"rank", rank.number()}}}};
      mine.info.timestamp.emplace();
      mine.info.timestamp->batch = 7;
      if (change && rank.number() == 1) change(mine);
      try {
        ObjectStore& store = far_ ? *far_ : *rank.store;
        attempts_[number] = save_rank_tars(rank.table, store, mine).attempt;
        heard[number] = "ok";
      } catch (const Error& e) {
        heard[number] = e.what();
      }
    });
    fibers_.run();
    job.kill();
    fibers_.run();
    return heard;
  }

  // The names in the folder.
  std::vector<std::string> names() {
    const auto store = local_store(*disk_);
    if (!store->stat("/run")) return {};
    std::vector<std::string> found;
    for (const auto& entry : store->list("/run", "").names)
      found.push_back(entry.name);
    return found;
  }

  std::string attempt_of(std::int64_t rank) {
    const OpenOptions options = {.store = local_store(*disk_)};
    return open_source(path_of(7, rank), options)->info().notes.back().second;
  }

  std::shared_ptr<ObjectStore> far_;  // Used instead of the disk.
  std::uint64_t seed_ = 0;
  Fibers fibers_;
  std::unique_ptr<SimFileSystem> disk_ = std::make_unique<SimFileSystem>();
  std::vector<std::string> attempts_;
};

TEST_F(SaveRankTarsTest, EveryRankHasItsFileOfOneSave) {
  ASSERT_THAT(save(3), Each("ok"));
  EXPECT_THAT(names(), ElementsAre("ba7-rank0.tar", "ba7-rank1.tar", "ba7-rank2.tar"));
  EXPECT_THAT(attempts_, Each(attempts_[0]));
  for (const std::int64_t rank : {0, 1, 2}) {
    EXPECT_EQ(attempt_of(rank), attempts_[0]);
    const Value found = load(path_of(7, rank), {.store = local_store(*disk_)});
    EXPECT_EQ(found.at("state").at("rank"), Value(rank));
  }
}

TEST_F(SaveRankTarsTest, OneThatHasNoRoomEndsItForAll) {
  const auto heard =
      save(3, {{.kind = SimFault::Kind::kFails, .rank = 2, .step = 3, .error = ENOSPC}});
  EXPECT_THAT(heard, Each(AllOf(HasSubstr("rank 2"), HasSubstr("writing its file"))));
  EXPECT_THAT(heard, Each(heard[0]));
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(SaveRankTarsTest, AStoreHasThemAlike) {
  far_ = memory_store();
  ASSERT_THAT(save(2), Each("ok"));
  for (const std::int64_t rank : {0, 1}) {
    const Value found = load(path_of(7, rank), {.store = far_});
    EXPECT_EQ(found.at("state").at("rank"), Value(rank));
  }
  EXPECT_THAT(save(2), Each(HasSubstr("exists already")));
}

// No file gets its name before all files are written, not even a file that was written long before.
TEST_F(SaveRankTarsTest, AStoreThatTakesNoMoreOfOneEndsItForAll) {
  const auto memory = memory_store();
  testing::StoreHooks hooks;
  hooks.before = [](testing::StoreCall call, const std::string& name) {
    const bool is_bad = call == testing::StoreCall::kWrite && name.ends_with("rank1.tar");
    if (is_bad) throw StorageError("no more room", ENOSPC);
  };
  far_ = std::make_shared<testing::WatchedStore>(memory, hooks);
  const auto heard = save(2);
  EXPECT_THAT(heard, Each(AllOf(HasSubstr("rank 1"), HasSubstr("no more room"))));
  EXPECT_FALSE(memory->stat(path_of(7, 0)));
}

TEST_F(SaveRankTarsTest, OneThatSavesAnotherMomentIsToldSo) {
  const auto heard = save(2, {}, [](RankTarsJob& job) { job.info.timestamp->batch = 8; });
  EXPECT_THAT(heard, Each(HasSubstr("rank 0 saves batch 7 at the same time, and this one")));
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(SaveRankTarsTest, WhatIsThereIsReplacedOnlyWhereThatIsAllowed) {
  ASSERT_THAT(save(2), Each("ok"));
  const std::string first = attempts_[0];
  EXPECT_THAT(save(2), Each(HasSubstr("exists already")));
  EXPECT_EQ(attempt_of(0), first);
  EXPECT_EQ(attempt_of(1), first);
}

TEST_F(SaveRankTarsTest, WhatIsKeptAtTheMeetingPlaceDoesNotGrow) {
  SimJob job(fibers_, {.world_size = 3, .disks = {disk_.get()}});
  std::size_t most = 0;
  job.start([&](SimJob::Rank& rank) {
    for (std::int64_t batch = 0; batch < 20; ++batch) {
      RankTarsJob mine{.path = path_of(batch, rank.number()), .stage = 2};
      mine.checkpoint = Dict{{"state", Dict{{"model", Dict{}}}}};
      save_rank_tars(rank.table, *rank.store, mine);
      most = std::max(most, job.place().values.size());
    }
  });
  fibers_.run();
  EXPECT_EQ(names().size(), 60U);
  EXPECT_LE(most, 20U);
}

// A rank dies at any step. All living ranks are told the same result. If they are told that the
// save succeeded, every rank has its file of that save, even after a power loss.
TEST_F(SaveRankTarsTest, ADeathAtAnyStepLeavesAWholeCheckpointOrNone) {
  int saved = 0;
  int failed = 0;
  for (std::uint64_t step = 1; step < 160; ++step) {
    const auto rank = static_cast<std::int64_t>(step % 3);
    disk_ = std::make_unique<SimFileSystem>();
    const auto heard = save(3, {{.kind = SimFault::Kind::kCrash, .rank = rank, .step = step}});
    std::string told;
    for (std::size_t of = 0; of < heard.size(); ++of) {
      if (heard[of].empty()) continue;  // The rank died.
      if (told.empty()) told = heard[of];
      EXPECT_EQ(heard[of], told) << step << " of " << rank << ": " << heard[of];
    }
    disk_ = disk_->after_power_loss([&](std::uint64_t below) { return step % below; });
    if (told != "ok") {
      ++failed;
      EXPECT_THAT(told, HasSubstr("rank " + std::to_string(rank)));
      continue;
    }
    ++saved;
    for (const std::int64_t of : {0, 1, 2})
      EXPECT_EQ(attempt_of(of), attempts_[rank == 0 ? 1 : 0]) << step << " of " << rank;
  }
  EXPECT_GT(saved, 5);
  EXPECT_GT(failed, 50);
}

}  // namespace
}  // namespace cairn
