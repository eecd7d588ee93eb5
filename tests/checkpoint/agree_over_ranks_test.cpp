// Which checkpoint all ranks go on from, when each sees something else.
#include "checkpoint/ranks/agree_over_ranks.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/error.h"

#include "testing/sim_job.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::Fibers;
using ::testing::HasSubstr;
using testing::SimFault;
using testing::SimFileSystem;
using testing::SimJob;

SeenCheckpoint seen(std::int64_t batch, const std::string& identity = "") {
  return {.name = "ba" + std::to_string(batch), .order = {0, batch}, .identity = identity};
}

SeenCheckpoint part_of(std::int64_t batch) {
  SeenCheckpoint part = seen(batch);
  part.is_published = false;
  return part;
}

// What each rank gets that sees that: a name, "none", or an error; empty: it died.
std::vector<std::string> agree(const std::vector<std::vector<SeenCheckpoint>>& by_rank,
                               std::vector<SimFault> faults = {}) {
  Fibers fibers;
  SimFileSystem disk;
  SimJob job(fibers, {.world_size = static_cast<std::int64_t>(by_rank.size()),
                      .disks = {&disk},
                      .faults = std::move(faults)});
  std::vector<std::string> got(by_rank.size());
  job.start([&](SimJob::Rank& rank) {
    const auto number = static_cast<std::size_t>(rank.number());
    try {
      const auto agreed = agree_over_ranks(rank.table, {.look = [&](const auto& move_on) {
                                             move_on();
                                             return by_rank[number];
                                           }});
      got[number] = agreed ? agreed->name + agreed->identity : "none";
    } catch (const Error& e) {
      got[number] = e.what();
    }
  });
  fibers.run();
  return got;
}

TEST(AgreeOverRanksTest, TheFurthestThatAllSeeIsTaken) {
  EXPECT_THAT(agree({{seen(3), seen(2), seen(1)}, {seen(2), seen(1)}, {seen(3), seen(2)}}),
              Each("ba2"));
  EXPECT_THAT(agree({{seen(9), seen(10)}, {seen(10), seen(9)}}), Each("ba10"));
}

TEST(AgreeOverRanksTest, WhereNobodySeesAnyTheRunBeginsAnew) {
  EXPECT_THAT(agree({{}, {}, {}}), Each("none"));
}

TEST(AgreeOverRanksTest, OneNameWithTwoContentsIsNotOneCheckpoint) {
  EXPECT_THAT(agree({{seen(3, "a"), seen(2, "x")}, {seen(3, "b"), seen(2, "x")}}), Each("ba2x"));
}

TEST(AgreeOverRanksTest, PartsThatWereNeverPublishedAreNone) {
  EXPECT_THAT(agree({{seen(2)}, {part_of(3), part_of(2)}}), Each("ba2"));
  EXPECT_THAT(agree({{}, {part_of(3)}}), Each("none"));
  EXPECT_THAT(agree({{part_of(3)}, {part_of(3)}}), Each("none"));
}

TEST(AgreeOverRanksTest, ARankThatLostItsPartsIsNamedAndNobodyBeginsAnew) {
  const auto got = agree({{seen(2), seen(1)}, {seen(2), seen(1)}, {}});
  EXPECT_THAT(got, Each(got[0]));
  EXPECT_THAT(got[0], HasSubstr("resuming on 3 ranks: rank 2: has none of the checkpoints that "
                                "the others have (ba2)"));
}

TEST(AgreeOverRanksTest, ARankThatDiesIsNamedOnAllOthers) {
  for (const std::uint64_t step : {1, 3}) {
    const auto got = agree({{seen(2)}, {seen(2)}, {seen(2)}},
                           {{.kind = SimFault::Kind::kCrash, .rank = 1, .step = step}});
    EXPECT_EQ(got[1], "");
    EXPECT_EQ(got[0], got[2]);
    EXPECT_THAT(got[0], HasSubstr("rank 1: "));
  }
}

TEST(AgreeOverRanksTest, WhatOneCannotReadIsTheErrorOfAll) {
  Fibers fibers;
  SimFileSystem disk;
  SimJob job(fibers, {.world_size = 3, .disks = {&disk}});
  std::vector<std::string> got(3);
  job.start([&](SimJob::Rank& rank) {
    const auto look = [&](const auto&) -> std::vector<SeenCheckpoint> {
      if (rank.number() == 1) throw StorageError("the folder cannot be read", EACCES);
      return {seen(1)};
    };
    try {
      agree_over_ranks(rank.table, {.look = look});
    } catch (const RankFailure& e) {
      got[static_cast<std::size_t>(rank.number())] = fmt::format("{}: {}", e.status(), e.what());
    }
  });
  fibers.run();
  EXPECT_THAT(got, Each(fmt::format("{}: resuming on 3 ranks: rank 1: looking for checkpoints: "
                                    "the folder cannot be read",
                                    EACCES)));
}

}  // namespace
}  // namespace cairn
