// Saves of one checkpoint by several ranks, with one fault.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "cairn/error.h"

#include "commit_test.h"
#include "io/durable/atomic_file.h"
#include "storage/listing.h"
#include "storage/local/local_store.h"
#include "testing/file_bytes.h"
#include "testing/sim_job.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::Fibers;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::SavedAs;
using testing::SimFault;
using testing::SimFileSystem;
using testing::SimJob;
using testing::SimulatedCrash;
using ::testing::SizeIs;

class CommitOverRanksTest : public testing::CommitTest {};

TEST_F(CommitOverRanksTest, AllPartsBecomeOneFolder) {
  EXPECT_THAT(outcomes(save(4)), ElementsAre("ok", "ok", "ok", "ok"));
  EXPECT_THAT(disks_[0]->list("/run"), ElementsAre("ep0-ba7"));
  EXPECT_THAT(disks_[0]->list(kPath),
              ElementsAre(".cairn_manifest.json", ".metadata", "__0_0.distcp", "__1_0.distcp",
                          "__2_0.distcp", "__3_0.distcp"));
  EXPECT_EQ(problem(), "");
  const auto manifest = parse_folder_manifest(
      as_text(testing::file_bytes(*disks_[0], kPath + "/" + kFolderManifest).view));
  EXPECT_THAT(manifest.files, SizeIs(5));
}

TEST_F(CommitOverRanksTest, AFullDiskOfOneRankIsTheSameErrorOnAllAndLeavesNothing) {
  work_ = [](SimJob::Rank& rank, PartPlace&) {
    if (rank.number() == 2) rank.files->fail(testing::FileCall::kWrite, 2, ENOSPC);
  };
  const auto heard = save(4);
  expect_one_error(heard,
                   "RankFailure of rank 2, errno 28: saving /run/ep0-ba7 on 4 ranks: "
                   "rank 2: writing its part:");
  EXPECT_THAT(outcomes(heard), Each(HasSubstr("No space left on device")));
  expect_nothing_left();
  work_ = nullptr;
  is_hosted_ = false;
  EXPECT_THAT(outcomes(save(4)), Each("ok")) << "rank 0 ends when all know";
}

TEST_F(CommitOverRanksTest, ARankThatDiesIsNamedOnAllOthers) {
  for (const std::uint64_t step : {1, 4, 8, 14}) {
    const auto heard = save(3, {{.kind = SimFault::Kind::kCrash, .rank = 1, .step = step}});
    EXPECT_EQ(heard[1].outcome, "");
    expect_one_error(heard, "rank 1");
    expect_one_error(heard, "its process ended, hangs, or is cut off");
    expect_nothing_left();
  }
}

TEST_F(CommitOverRanksTest, ARankThatHangsIsNamedOnAllAndOnItself) {
  for (const std::int64_t rank : {0, 1}) {
    auto heard =
        save(3, {{.kind = SimFault::Kind::kHang, .rank = rank, .step = 12, .time = seconds(60)}});
    auto& late = heard[static_cast<std::size_t>(rank)];
    EXPECT_GE(late.took, seconds(60));
    late.took = {};
    expect_one_error(heard, fmt::format("RankFailure of rank {}, errno 0", rank));
    expect_nothing_left();
  }
}

TEST_F(CommitOverRanksTest, ALongWriteIsNoHang) {
  work_ = [this](SimJob::Rank& rank, PartPlace& place) {
    for (int block = 0; rank.number() == 1 && block < 300; ++block) {
      fibers_.pause(milliseconds(500));
      place.keep_alive();
    }
  };
  const auto heard = save(3);
  EXPECT_THAT(outcomes(heard), Each("ok"));
  EXPECT_GE(heard[0].took, seconds(150));
}

TEST_F(CommitOverRanksTest, ALongWriteEndsWhenAnotherRankFails) {
  work_ = [this](SimJob::Rank& rank, PartPlace& place) {
    if (rank.number() == 2) throw StorageError("this rank's disk is gone", EIO);
    for (int block = 0; block < 300; ++block) {
      fibers_.pause(milliseconds(500));
      place.keep_alive();
    }
  };
  expect_one_error(save(3), "RankFailure of rank 2, errno 5");
  expect_nothing_left();
}

TEST_F(CommitOverRanksTest, WhenRankZeroDiesBeforeItsDecisionItIsNamedAndNothingIsThere) {
  const auto heard = save(3, {{.kind = SimFault::Kind::kCrash, .rank = 0, .step = 14}});
  expect_one_error(heard, "RankFailure of rank 0, errno 0");
  remove_leftovers(*disks_[0], "/run");
  expect_nothing_left();
}

TEST_F(CommitOverRanksTest, WhenRankZeroDiesWithTheMeetingPlaceTheErrorSaysWhatIsKnown) {
  is_hosted_ = false;
  const auto heard = save(3, {{.kind = SimFault::Kind::kCrash, .rank = 0, .step = 14}});
  expect_one_error(heard, "Whether it was saved is not known");
  EXPECT_FALSE(disks_[0]->stat(kPath, false));
  remove_leftovers(*disks_[0], "/run");
  expect_nothing_left();
}

TEST_F(CommitOverRanksTest, WhatIsThereIsRefusedOnAllUnlessItMayBeReplaced) {
  ASSERT_THAT(outcomes(save(2)), Each("ok"));
  expect_one_error(save(3), "AlreadyExistsError: saving /run/ep0-ba7 on 3 ranks: rank 0: ");
  EXPECT_EQ(problem(), "");
  overwrite_ = true;
  EXPECT_THAT(outcomes(save(3)), Each("ok"));
  EXPECT_EQ(problem(), "");
  EXPECT_THAT(disks_[0]->list(kPath), SizeIs(5));
}

TEST_F(CommitOverRanksTest, WhatWasCancelledOnOneIsCancelledOnAll) {
  work_ = [](SimJob::Rank& rank, PartPlace&) {
    if (rank.number() == 1) throw CancelledError("the time for it has passed");
  };
  expect_one_error(save(3),
                   "CancelledError: saving /run/ep0-ba7 on 3 ranks: rank 1: writing its "
                   "part: the time for it has passed");
}

TEST_F(CommitOverRanksTest, APointerThatCannotBeMovedIsAnErrorOnAllAndTheCheckpointStays) {
  point_ = [] { throw StorageError("no room for the link", ENOSPC); };
  expect_one_error(save(3), "is saved, but not pointed at: no room for the link");
  EXPECT_EQ(problem(), "");
}

TEST_F(CommitOverRanksTest, RanksThatSaveDifferentThingsAreTold) {
  SimJob job(fibers_, {.world_size = 2, .disks = {disks_[0].get()}});
  std::vector<std::string> heard(2);
  job.start([&](SimJob::Rank& rank) {
    RankCommitJob mine{.path = rank.number() == 0 ? "/run/ep0-ba7" : "/run/ep0-ba8"};
    mine.write_part = [](PartPlace&) { return std::vector<ManifestFile>(); };
    mine.metadata = [](const std::vector<RankPart>&) { return ""; };
    try {
      commit_over_ranks(rank.table, *rank.store, mine);
    } catch (const UsageError& e) {
      heard[static_cast<std::size_t>(rank.number())] = e.what();
    }
  });
  fibers_.run();
  EXPECT_THAT(heard, Each(HasSubstr("rank 1: beginning to save: rank 0 saves ep0-ba7")));
}

TEST_F(CommitOverRanksTest, WhatIsKeptAtTheMeetingPlaceDoesNotGrow) {
  SimJob job(fibers_, {.world_size = 3, .disks = {disks_[0].get()}});
  std::size_t most = 0;
  job.start([&](SimJob::Rank& rank) {
    for (int batch = 0; batch < 40; ++batch) {
      RankCommitJob mine{.path = "/run/ba" + std::to_string(batch)};
      mine.write_part = [](PartPlace&) { return std::vector<ManifestFile>(); };
      mine.metadata = [](const std::vector<RankPart>&) { return "nothing"; };
      commit_over_ranks(rank.table, *rank.store, mine);
      most = std::max(most, job.place().values.size());
    }
  });
  fibers_.run();
  EXPECT_THAT(disks_[0]->list("/run"), SizeIs(40));
  EXPECT_LE(most, 20U);
}

// Rank 0 is cut off at any step of the first two saves. Rank 0 may end a save without telling the
// other ranks.
TEST_F(CommitOverRanksTest, WhatASaveLeavesThatFailedGoesWithTheNextOne) {
  std::size_t unbroken = 0;
  int failed = 0;
  for (std::uint64_t step = 0; step < 60; ++step) {  // Step 0: never.
    disks_[0] = std::make_unique<SimFileSystem>();
    const std::vector<SimFault> faults = {
        {.kind = SimFault::Kind::kCutOff, .rank = 0, .step = step, .time = seconds(15)}};
    SimJob job(fibers_, {.world_size = 3, .disks = {disks_[0].get()}, .faults = faults});
    job.start([&](SimJob::Rank& rank) {
      for (int batch = 0; batch < 3; ++batch) {
        RankCommitJob mine{.path = "/run/ba" + std::to_string(batch)};
        mine.write_part = [](PartPlace&) { return std::vector<ManifestFile>(); };
        mine.metadata = [](const std::vector<RankPart>&) { return "nothing"; };
        try {
          commit_over_ranks(rank.table, *rank.store, mine);
        } catch (const RankFailure&) {
          EXPECT_LT(batch, 2);
          ++failed;
        }
        fibers_.pause(seconds(60));  // Until rank 0 is back.
      }
    });
    fibers_.run();
    if (step == 0) unbroken = job.place().values.size();
    EXPECT_EQ(job.place().values.size(), unbroken) << step;
  }
  EXPECT_GT(failed, 20);
}

// A process may hang at any step when its job is given up.
TEST_F(CommitOverRanksTest, AProcessOfAnEarlierAttemptDoesNotWriteIntoThisOne) {
  for (std::uint64_t step = 1; step < 16; ++step) {
    disks_[0] = std::make_unique<SimFileSystem>();
    const std::vector<SimFault> faults = {
        {.kind = SimFault::Kind::kHang, .rank = 2, .step = step, .time = seconds(15)}};
    SimJob before(
        fibers_,
        {.world_size = 3, .disks = {disks_[0].get()}, .faults = faults, .is_hosted = false});
    before.start([&](SimJob::Rank& rank) { attempt(rank); });
    fibers_.run([&] { return before.is_over(); });
    remove_leftovers(*disks_[0], "/run");
    if (disks_[0]->stat(kPath, true)) {  // The hanging process was not needed.
      before.kill();
      fibers_.run();
      continue;
    }
    work_ = [&](SimJob::Rank&, PartPlace& place) {
      for (int second = 0; !before.ranks()[2]->has_ended && second < 30; ++second) {
        fibers_.pause(seconds(1));
        place.keep_alive();
      }
    };
    SimJob now(fibers_, {.world_size = 2, .disks = {disks_[0].get()}, .seed = 2});
    now.start([&](SimJob::Rank& rank) {
      const std::string got = attempt(rank);
      EXPECT_EQ(got, "ok") << step;
    });
    fibers_.run();
    work_ = nullptr;
    EXPECT_THAT(disks_[0]->list(kPath), SizeIs(4)) << disks_[0]->describe();
  }
}

// --- In a store whose objects appear one by one --------------------------------------------------

TEST_F(CommitOverRanksTest, InAStoreEachFileHasTheAttemptInItsName) {
  store_ = memory_store();
  ASSERT_THAT(outcomes(save(3)), Each("ok"));
  const auto names = list_names(*store_, kPath);
  EXPECT_THAT(names, SizeIs(5));
  EXPECT_THAT(names[2], ::testing::MatchesRegex("__0_0-[0-9a-f]{16}.distcp"));
  overwrite_ = true;
  ASSERT_THAT(outcomes(save(2)), Each("ok"));
  EXPECT_THAT(list_names(*store_, kPath), SizeIs(4)) << "the replaced files are removed";
  EXPECT_EQ(testing::problem_of(
                [&](const std::string& name) -> std::optional<std::string> {
                  const auto source = store_->open(kPath + "/" + name);
                  return std::string(as_text(source->view(0, source->size()).view));
                },
                7),
            "");
}

TEST_F(CommitOverRanksTest, InAStoreNothingIsLeftOfAnAttemptThatFailed) {
  store_ = memory_store();
  work_ = [](SimJob::Rank& rank, PartPlace& place) {
    if (rank.number() != 2) return;
    place.write(
        {.name = "__2_1.distcp", .fill = [](ObjectWrite& out) { out.write(as_bytes("some")); }});
    throw StorageError("the network is gone", EIO);
  };
  expect_one_error(save(3), "RankFailure of rank 2");
  EXPECT_FALSE(store_->stat(kPath));
}

TEST_F(CommitOverRanksTest, InAStoreWhatADeadRankLeftGoesWithTheNextCommit) {
  store_ = memory_store();
  std::vector<SimJob::Rank*> all;
  work_ = [&](SimJob::Rank& rank, PartPlace&) {
    all.push_back(&rank);
    if (rank.number() != 0) return;
    fibers_.pause(seconds(1));  // The other ranks have written by then.
    for (SimJob::Rank* one : all)
      one->is_dead = true;
  };
  EXPECT_THAT(outcomes(save(3)), Each(""));
  work_ = nullptr;
  EXPECT_FALSE(store_->stat(kPath + "/.metadata"));
  EXPECT_THAT(list_names(*store_, kPath), Not(IsEmpty()));
  EXPECT_THAT(outcomes(save(3)), Each("ok"));
  EXPECT_THAT(list_names(*store_, kPath), SizeIs(5));
}

}  // namespace
}  // namespace cairn
