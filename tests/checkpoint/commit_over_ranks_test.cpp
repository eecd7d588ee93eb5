// One checkpoint of several ranks, and one thing that goes wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "cairn/error.h"

#include "checkpoint/ranks/see_checkpoints.h"
#include "io/atomic_file.h"
#include "sim_parts.h"
#include "storage/listing.h"
#include "storage/local_store.h"
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

const std::string kPath = "/run/ep0-ba7";

// What one rank got: "ok", or the class of the error and its message; empty: it died.
struct Heard {
  std::string outcome;
  seconds took{};
};

class CommitOverRanksTest : public ::testing::Test {
 protected:
  CommitOverRanksTest() { add_machines(1); }

  // One save of a job of so many ranks.
  std::vector<Heard> save(std::int64_t ranks, std::vector<SimFault> faults = {}) {
    std::vector<SimFileSystem*> where;
    for (auto& disk : disks_)
      where.push_back(disk.get());
    SimJob job(fibers_, {.world_size = ranks,
                         .disks = where,
                         .machines = machines_,
                         .seed = ++seed_,
                         .faults = faults,
                         .is_hosted = is_hosted_});
    std::vector<Heard> heard(static_cast<std::size_t>(ranks));
    job.start([&](SimJob::Rank& rank) {
      const auto begin = fibers_.now();
      auto& mine = heard[static_cast<std::size_t>(rank.number())];
      mine.outcome = attempt(rank);
      mine.took = std::chrono::duration_cast<seconds>(fibers_.now() - begin);
    });
    fibers_.run();
    return heard;
  }

  std::string attempt(SimJob::Rank& rank) {
    if (before_) before_(rank);
    const SavedAs as = {.start = 0, .batch = 7, .world_size = rank.table.me.world_size};
    RankCommitJob job{.path = kPath, .overwrite = overwrite_, .puts_aside = puts_aside_};
    job.write_part = [&](PartPlace& place) {
      if (work_) work_(rank, place);
      return testing::write_sample_part(place, as, rank.number());
    };
    job.metadata = [&](const std::vector<RankPart>& parts) {
      return testing::sample_metadata(as, parts);
    };
    job.point = point_;
    try {
      const RankCommitReport report =
          commit_over_ranks(rank.table, store_ ? *store_ : *rank.store, job);
      return report.bytes > 0 && report.id.size() == 16 ? "ok" : "no report";
    } catch (const RankFailure& e) {
      return fmt::format("RankFailure of rank {}, errno {}: {}", e.rank(), e.status(), e.what());
    } catch (const AlreadyExistsError& e) {
      return std::string("AlreadyExistsError: ") + e.what();
    } catch (const UsageError& e) {
      return std::string("UsageError: ") + e.what();
    } catch (const CancelledError& e) {
      return std::string("CancelledError: ") + e.what();
    }
  }

  static std::vector<std::string> outcomes(const std::vector<Heard>& heard) {
    std::vector<std::string> all;
    for (const Heard& one : heard)
      all.push_back(one.outcome);
    return all;
  }

  // All that still live have the same error, soon.
  static void expect_one_error(const std::vector<Heard>& heard, const std::string& text) {
    std::string first;
    for (const Heard& one : heard) {
      if (one.outcome.empty()) continue;
      if (first.empty()) first = one.outcome;
      EXPECT_EQ(one.outcome, first);
      EXPECT_LT(one.took, seconds(10));
    }
    EXPECT_THAT(first, HasSubstr(text));
  }

  std::string problem(std::size_t metadata_at = 0) {
    return testing::problem_of(
        [&](const std::string& name) -> std::optional<std::string> {
          for (std::size_t i = name == ".metadata" ? metadata_at : 0; i < disks_.size(); ++i) {
            const std::string path = kPath + "/" + name;
            if (!disks_[i]->stat(path, true)) continue;
            return std::string(as_text(testing::file_bytes(*disks_[i], path).view));
          }
          return std::nullopt;
        },
        7);
  }

  void add_machines(int count) {
    for (int i = 0; i < count; ++i) {
      disks_.push_back(std::make_unique<SimFileSystem>());
    }
  }

  // Which attempt a folder on a disk is of.
  std::string attempt_in(std::size_t disk, const std::string& folder) {
    const auto manifest = manifest_of(*local_store(*disks_[disk]), folder);
    return manifest ? manifest->attempt : "none";
  }

  // Behind what the other machines have published.
  void fail_to_publish(std::int64_t ranks) {
    work_ = [](SimJob::Rank& rank, PartPlace&) {
      if (rank.number() == 0) rank.files->fail(testing::FileCall::kRename, 1, EIO);
    };
    expect_one_error(save(ranks), "RankFailure of rank 0, errno 5");
    work_ = nullptr;
  }

  void expect_nothing_left() {
    for (auto& disk : disks_) {
      EXPECT_THAT(disk->list("/run"), IsEmpty()) << disk->describe();
    }
  }

  std::uint64_t seed_ = 0;
  Fibers fibers_;
  std::vector<std::unique_ptr<SimFileSystem>> disks_;
  std::vector<std::string> machines_;  // SimJob's
  bool overwrite_ = false;
  bool puts_aside_ = false;
  bool is_hosted_ = true;
  std::function<void(SimJob::Rank&)> before_;            // before a rank begins
  std::function<void(SimJob::Rank&, PartPlace&)> work_;  // before a rank writes
  std::function<void()> point_;
  std::shared_ptr<ObjectStore> store_;  // of all, in place of the disks
};

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
      place.move_on();
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
      place.move_on();
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

// Wherever it was when its job was given up.
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
    if (disks_[0]->stat(kPath, true)) {  // it was not needed any more
      before.kill();
      fibers_.run();
      continue;
    }
    work_ = [&](SimJob::Rank&, PartPlace& place) {
      for (int second = 0; !before.ranks()[2]->has_ended && second < 30; ++second) {
        fibers_.pause(seconds(1));
        place.move_on();
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
  EXPECT_THAT(list_names(*store_, kPath), SizeIs(4)) << "what was replaced is removed";
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
    fibers_.pause(seconds(1));  // the others have written
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

// --- Machines without a file system in common ----------------------------------------------------

TEST_F(CommitOverRanksTest, EachMachineHasAFolderOfItsRanksParts) {
  add_machines(1);
  EXPECT_THAT(outcomes(save(4)), Each("ok"));
  EXPECT_THAT(disks_[0]->list(kPath),
              ElementsAre(".cairn_manifest.json", ".metadata", "__0_0.distcp", "__1_0.distcp"));
  EXPECT_THAT(disks_[1]->list(kPath), ElementsAre(".cairn_manifest.json", ".cairn_published",
                                                  "__2_0.distcp", "__3_0.distcp"));
  EXPECT_EQ(problem(), "");
}

TEST_F(CommitOverRanksTest, AMachineThatCannotPublishItsFolderIsAnErrorOnAll) {
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

// Rank 0 is on a machine that has nothing of it.
TEST_F(CommitOverRanksTest, ACheckpointOfOtherMachinesIsNotReplaced) {
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
  // And once more, from another new machine.
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

// What was published, and what failed beside it, whatever the machines are called.
TEST_F(CommitOverRanksTest, WhatSaysThatItWasPublishedIsKeptWithoutWhatPublishesIt) {
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
  // And one, of the first that failed: whose machine was not there when the second came.
  EXPECT_THAT(disks_[1]->list("/run"),
              ElementsAre("ep0-ba7", "ep0-ba7.damaged", "ep0-ba7.damaged-2"));
  ASSERT_THAT(outcomes(save(4)), Each("ok"));
  EXPECT_EQ(problem(), "");
  EXPECT_EQ(attempt_in(1, kPath + ".damaged"), first);
}

// Rank 0 died behind its rename, or before it, and its machine is not there.
TEST_F(CommitOverRanksTest, WhatNobodyKnowsTheEndOfIsKeptOnce) {
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

// Rank 0's saver has put its folder aside, since nobody can go on from it: a third machine is gone,
// or rank 0's own disk did not give it for a while.
TEST_F(CommitOverRanksTest, WhatRankZeroHasPutAsideIsPutAsideOnAllMachines) {
  add_machines(2);
  ASSERT_THAT(outcomes(save(6)), Each("ok"));
  const std::string first = attempt_in(1, kPath);
  disks_[1]->remove(kPath + "/.cairn_published");  // its rank died before it could say that
  put_aside(*local_store(*disks_[0]), kPath, kAsideUnreadable);
  disks_[2] = std::make_unique<SimFileSystem>();
  puts_aside_ = true;
  // Of an attempt that fails in between, behind machine 1, nothing is left to say so but that.
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

// Nobody knows what was put aside, and what else is of it: of attempts that do not say that they
// were published.
TEST_F(CommitOverRanksTest, WhatIsPutAsideAndDoesNotSayWhatItIsMayBeWhatOthersHave) {
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

TEST_F(CommitOverRanksTest, WhatADiskDoesNotGiveIsPutAside) {
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

// Rank 0 did not come to publish what another machine has published.
TEST_F(CommitOverRanksTest, PartsThatNobodyPublishedAreReplaced) {
  disks_.push_back(std::make_unique<SimFileSystem>());
  for (int attempt = 0; attempt < 2; ++attempt) {
    fail_to_publish(4);
    EXPECT_THAT(disks_[1]->list("/run"), ElementsAre("ep0-ba7"));
  }
  EXPECT_THAT(outcomes(save(4)), Each("ok"));
  EXPECT_THAT(disks_[1]->list("/run"), ElementsAre("ep0-ba7"));
  EXPECT_EQ(problem(), "");
}

// Also where a machine that has some of it has put them aside, to be rank 0's now.
TEST_F(CommitOverRanksTest, WhatWasPutAsideUnpublishedKeepsNothing) {
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
