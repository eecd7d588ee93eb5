// One checkpoint of several machines that share no file system.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "cairn/error.h"

#include "checkpoint/ranks/name_on_machine.h"
#include "checkpoint/ranks/see_checkpoints.h"
#include "commit_test.h"
#include "storage/listing.h"
#include "storage/local/local_store.h"
#include "testing/sim_job.h"

namespace cairn {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::SimFileSystem;
using testing::SimJob;

class CommitOverMachinesTest : public testing::CommitTest {};

TEST_F(CommitOverMachinesTest, EachMachineHasAFolderOfItsRanksParts) {
  add_machines(1);
  EXPECT_THAT(outcomes(save(4)), Each("ok"));
  EXPECT_THAT(disks_[0]->list(kPath),
              ElementsAre(".cairn_manifest.json", ".metadata", "__0_0.distcp", "__1_0.distcp"));
  EXPECT_THAT(disks_[1]->list(kPath), ElementsAre(".cairn_manifest.json", ".cairn_published",
                                                  "__2_0.distcp", "__3_0.distcp"));
  EXPECT_EQ(problem(), "");
}

TEST_F(CommitOverMachinesTest, APartIsMarkedWhenItsCheckpointIsThereEvenIfNothingPointsAtIt) {
  add_machines(1);
  point_ = [] { throw StorageError("the link is a folder", EISDIR); };
  expect_one_error(save(4), "RankFailure of rank 0");
  EXPECT_EQ(problem(), "");
  EXPECT_TRUE(disks_[1]->stat(kPath + "/.cairn_published", true));
}

// A failed mark does not fail the save. mark_published() does not create a missing folder.
TEST_F(CommitOverMachinesTest, AMarkThatFailsIsLeftOut) {
  add_machines(1);
  work_ = [](SimJob::Rank& rank, PartPlace&) {
    if (rank.number() == 2) rank.files->fail(testing::FileCall::kRename, 2, EIO);
  };
  EXPECT_THAT(outcomes(save(4)), Each("ok"));
  EXPECT_EQ(problem(), "");
  EXPECT_FALSE(disks_[1]->stat(kPath + "/.cairn_published", true));
  const auto store = local_store(*disks_[1]);
  mark_published(*store, kPath, "of another attempt");
  mark_published(*store, "/run/removed", "any");
  EXPECT_FALSE(disks_[1]->stat(kPath + "/.cairn_published", true));
  EXPECT_THAT(disks_[1]->list("/run"), ElementsAre("ep0-ba7"));
}

// After the failed save, no machine has any file of that save. A folder that was put aside for the
// save stays aside.
TEST_F(CommitOverMachinesTest, WhatRankZeroCannotPublishIsRemovedByTheOthers) {
  add_machines(2);
  const auto fails = [](std::int64_t number) {
    return [number](SimJob::Rank& rank, PartPlace&) {
      if (rank.number() == number) rank.files->fail(testing::FileCall::kRename, 1, EIO);
    };
  };
  for (const std::int64_t rank : {0, 4}) {
    work_ = fails(rank);
    expect_one_error(save(6), "RankFailure of rank " + std::to_string(rank) + ", errno 5");
    expect_nothing_left();
  }
  work_ = nullptr;
  ASSERT_THAT(outcomes(save(6)), Each("ok"));
  const std::string first = attempt_in(1, kPath);
  disks_[0] = std::make_unique<SimFileSystem>();
  puts_aside_ = true;
  work_ = fails(0);
  expect_one_error(save(6), "RankFailure of rank 0, errno 5");
  EXPECT_THAT(disks_[1]->list("/run"), ElementsAre("ep0-ba7.damaged"));
  EXPECT_EQ(attempt_in(1, kPath + ".damaged"), first);
}

TEST_F(CommitOverMachinesTest, AMachineThatCannotPublishItsFolderIsAnErrorOnAll) {
  disks_.push_back(std::make_unique<SimFileSystem>());
  work_ = [](SimJob::Rank& rank, PartPlace&) {
    if (rank.number() == 2) rank.files->fail(testing::FileCall::kRename, 1, EIO);
  };
  expect_one_error(save(4), "RankFailure of rank 2, errno 5");
  expect_nothing_left();
  work_ = nullptr;
  EXPECT_THAT(outcomes(save(4)), Each("ok"));
  EXPECT_EQ(problem(), "");
  overwrite_ = true;
  expect_one_error(save(4), "UsageError: saving /run/ep0-ba7 on 4 ranks: rank 0: verifying");
  EXPECT_EQ(problem(), "");
}

// Rank 0 is on a machine that has no part of the checkpoint.
TEST_F(CommitOverMachinesTest, ACheckpointOfOtherMachinesIsNotReplaced) {
  add_machines(1);
  machines_ = {"a", "b"};
  ASSERT_THAT(outcomes(save(4)), Each("ok"));
  disks_.insert(disks_.begin(), std::make_unique<SimFileSystem>());
  machines_ = {"c", "a", "b"};
  overwrite_ = true;
  const std::string before = disks_[1]->describe() + disks_[2]->describe();
  expect_one_error(save(3),
                   "AlreadyExistsError: saving /run/ep0-ba7 on 3 ranks: rank 0: verifying "
                   "the parts of all ranks: /run/ep0-ba7 is there already on the machine "
                   "of rank 1");
  EXPECT_EQ(disks_[1]->describe() + disks_[2]->describe(), before);
  EXPECT_THAT(disks_[0]->list("/run"), IsEmpty());
  puts_aside_ = true;
  EXPECT_THAT(outcomes(save(3)), Each("ok"));
  EXPECT_EQ(problem(), "");
  // One more save, with rank 0 on another new machine.
  disks_.insert(disks_.begin(), std::make_unique<SimFileSystem>());
  machines_ = {"d", "c", "a", "b"};
  EXPECT_THAT(outcomes(save(4)), Each("ok"));
  EXPECT_EQ(problem(), "");
  EXPECT_THAT(disks_[2]->list("/run"),
              ElementsAre("ep0-ba7", "ep0-ba7.damaged", "ep0-ba7.damaged-2"));
  EXPECT_THAT(disks_[2]->list(kPath + ".damaged"),
              ElementsAre(".cairn_manifest.json", ".metadata", "__0_0.distcp", "__1_0.distcp"));
  EXPECT_THAT(
      disks_[3]->list(kPath + ".damaged"),
      ElementsAre(".cairn_manifest.json", ".cairn_published", "__2_0.distcp", "__3_0.distcp"));
}

// The published checkpoint is kept, and so is the folder of one failed attempt with its name,
// whatever the machines are called.
TEST_F(CommitOverMachinesTest, WhatSaysThatItWasPublishedIsKeptWithoutWhatPublishesIt) {
  add_machines(1);
  machines_ = {"a", "b"};
  ASSERT_THAT(outcomes(save(4)), Each("ok"));
  const std::string first = attempt_in(1, kPath);
  puts_aside_ = true;
  for (const std::string name : {"a", "c", "d", "e"}) {
    machines_ = {name, "b"};
    disks_[0] = std::make_unique<SimFileSystem>();
    fail_to_publish(4);
  }
  // The folder ".damaged-2" is from the first failed attempt: the machine with that folder was gone
  // when the second attempt came.
  EXPECT_THAT(disks_[1]->list("/run"),
              ElementsAre("ep0-ba7", "ep0-ba7.damaged", "ep0-ba7.damaged-2"));
  ASSERT_THAT(outcomes(save(4)), Each("ok"));
  EXPECT_EQ(problem(), "");
  EXPECT_EQ(attempt_in(1, kPath + ".damaged"), first);
}

// Rank 0 died before or after its rename, and the machine of rank 0 is gone.
TEST_F(CommitOverMachinesTest, WhatNobodyKnowsTheEndOfIsKeptOnce) {
  add_machines(1);
  machines_ = {"a", "b"};
  fail_to_publish(4);
  const std::string first = attempt_in(1, kPath);
  puts_aside_ = true;
  for (const std::string name : {"c", "d", "e"}) {
    machines_ = {name, "b"};
    disks_[0] = std::make_unique<SimFileSystem>();
    fail_to_publish(4);
    EXPECT_THAT(disks_[1]->list("/run"), ElementsAre("ep0-ba7", "ep0-ba7.damaged"));
    EXPECT_EQ(attempt_in(1, kPath + ".damaged"), first);
  }
}

// Rank 0's saver has put its folder aside, because the job cannot resume from that folder: a third
// machine is gone, or rank 0's disk failed to deliver the folder for a while.
TEST_F(CommitOverMachinesTest, WhatRankZeroHasPutAsideIsPutAsideOnAllMachines) {
  add_machines(2);
  ASSERT_THAT(outcomes(save(6)), Each("ok"));
  const std::string first = attempt_in(1, kPath);
  // As if the rank died before it could write the mark.
  disks_[1]->remove(kPath + "/.cairn_published");
  put_aside(*local_store(*disks_[0]), kPath, kAsideUnreadable);
  disks_[2] = std::make_unique<SimFileSystem>();
  puts_aside_ = true;
  // This attempt fails on the machine after machine 1. Afterwards only the folder that machine 1
  // has put aside shows that the attempt existed.
  work_ = [](SimJob::Rank& rank, PartPlace&) {
    if (rank.number() == 4) rank.files->fail(testing::FileCall::kRename, 1, EIO);
  };
  expect_one_error(save(6), "RankFailure of rank 4, errno 5");
  work_ = nullptr;
  for (int i = 0; i < 3; ++i) {
    fail_to_publish(6);
    EXPECT_THAT(disks_[1]->list("/run"), ElementsAre("ep0-ba7", "ep0-ba7.damaged"));
    EXPECT_EQ(attempt_in(1, kPath + ".damaged"), first);
    EXPECT_THAT(disks_[2]->list("/run"), ElementsAre("ep0-ba7"));
  }
  ASSERT_THAT(outcomes(save(6)), Each("ok"));
  EXPECT_EQ(problem(), "");
}

// It is unknown which attempt the damaged folder belongs to, because the attempts have no published
// mark. So it is unknown, too, which folders of other machines belong together with it.
TEST_F(CommitOverMachinesTest, WhatIsPutAsideAndDoesNotSayWhatItIsMayBeWhatOthersHave) {
  add_machines(2);
  fail_to_publish(6);
  const std::string first = attempt_in(2, kPath);
  const auto store = local_store(*disks_[1]);
  const auto damaged = store->begin(kPath + "/.cairn_manifest.json");
  damaged->write(as_bytes(std::string_view("{}")));
  damaged->commit();
  const std::string before = disks_[1]->describe() + disks_[2]->describe();
  expect_one_error(save(6), "AlreadyExistsError: saving /run/ep0-ba7 on 6 ranks: rank 2: ");
  EXPECT_EQ(disks_[1]->describe() + disks_[2]->describe(), before);
  puts_aside_ = true;
  for (int i = 0; i < 3; ++i) {
    fail_to_publish(6);
    EXPECT_THAT(disks_[2]->list("/run"), ElementsAre("ep0-ba7", "ep0-ba7.damaged"));
    EXPECT_EQ(attempt_in(2, kPath + ".damaged"), first);
  }
  EXPECT_THAT(disks_[1]->list("/run"),
              ElementsAre("ep0-ba7", "ep0-ba7.damaged", "ep0-ba7.damaged-2"));
  ASSERT_THAT(outcomes(save(6)), Each("ok"));
  EXPECT_EQ(problem(), "");
}

TEST_F(CommitOverMachinesTest, WhatADiskDoesNotGiveIsPutAside) {
  using testing::FileCall;
  const std::vector<std::pair<FileCall, std::uint64_t>> all = {
      {FileCall::kOpen, 1}, {FileCall::kList, 1}, {FileCall::kStat, 4}};
  for (const auto& [call, number] : all) {
    disks_.clear();
    add_machines(2);
    ASSERT_THAT(outcomes(save(4)), Each("ok"));
    const std::string first = attempt_in(1, kPath);
    disks_[0] = std::make_unique<SimFileSystem>();
    const std::string before = disks_[1]->describe();
    const auto fails = [kind = call, n = number](SimJob::Rank& rank) {
      if (rank.number() == 2) rank.files->fail(kind, n, EIO);
    };
    before_ = fails;
    puts_aside_ = false;
    expect_one_error(save(4), "RankFailure of rank 2, errno 5");
    EXPECT_EQ(disks_[1]->describe(), before);
    puts_aside_ = true;
    ASSERT_THAT(outcomes(save(4)), Each("ok"));
    EXPECT_EQ(problem(), "");
    EXPECT_THAT(disks_[1]->list("/run"), ElementsAre("ep0-ba7", "ep0-ba7.unreadable"));
    EXPECT_EQ(attempt_in(1, kPath + ".unreadable"), first);
    before_ = nullptr;
  }
}

// Another machine has published its parts, and rank 0 died before it published its own.
TEST_F(CommitOverMachinesTest, PartsThatNobodyPublishedAreReplaced) {
  disks_.push_back(std::make_unique<SimFileSystem>());
  for (int attempt = 0; attempt < 2; ++attempt) {
    fail_to_publish(4);
    EXPECT_THAT(disks_[1]->list("/run"), ElementsAre("ep0-ba7"));
  }
  EXPECT_THAT(outcomes(save(4)), Each("ok"));
  EXPECT_THAT(disks_[1]->list("/run"), ElementsAre("ep0-ba7"));
  EXPECT_EQ(problem(), "");
}

// Unpublished parts are also replaced if a machine has put its part aside, and rank 0 now runs on
// that machine.
TEST_F(CommitOverMachinesTest, WhatWasPutAsideUnpublishedKeepsNothing) {
  add_machines(2);
  machines_ = {"a", "b", "c"};
  fail_to_publish(6);
  std::swap(disks_[0], disks_[1]);
  machines_ = {"b", "a", "c"};
  put_aside(*local_store(*disks_[0]), kPath, kAsideDamaged);
  puts_aside_ = true;
  ASSERT_THAT(outcomes(save(6)), Each("ok"));
  EXPECT_THAT(disks_[2]->list("/run"), ElementsAre("ep0-ba7"));
}

}  // namespace
}  // namespace cairn
