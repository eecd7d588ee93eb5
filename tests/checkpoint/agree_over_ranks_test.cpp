// How all ranks agree on one checkpoint to resume from if each rank sees other checkpoints.
#include "checkpoint/ranks/agree_over_ranks.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "cairn/error.h"

#include "testing/sim_job.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::Fibers;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::SimFault;
using testing::SimFileSystem;
using testing::SimJob;

SeenCheckpoint seen(std::int64_t batch, const std::string& identity = "") {
  return {.name = "ba" + std::to_string(batch), .order = {0, batch}, .identity = identity};
}

// The agreed checkpoint as text. "FILE:R" says that rank R has the file.
std::string text_of(const AgreedCheckpoint& agreed) {
  std::string text = agreed.name + agreed.identity;
  for (const AgreedCheckpoint::File& file : agreed.files) {
    text += fmt::format(" {}:{}", file.name, file.rank);
  }
  return text;
}

// A checkpoint of the files a, b and c. The rank has the files in `has`.
SeenCheckpoint made_of_files(std::int64_t batch, const std::vector<std::string>& has,
                             bool is_published = false, const std::string& identity = "") {
  SeenCheckpoint one = seen(batch, identity);
  one.is_published = is_published;
  one.has = has;
  if (is_published) one.files = {{"a", 1, ""}, {"b", 2, "east"}, {"c", 3, "west"}};
  return one;
}

SeenCheckpoint part_of(std::int64_t batch, bool was_published = false) {
  SeenCheckpoint part = seen(batch);
  part.is_published = false;
  part.was_published = was_published;
  part.publisher = "east";
  return part;
}

// The result of each rank if it sees `by_rank[rank]`: a name, "none", or an error. "" if the rank
// died.
std::vector<std::string> agree(const std::vector<std::vector<SeenCheckpoint>>& by_rank,
                               std::vector<SimFault> faults = {}, bool may_lack_all = false) {
  Fibers fibers;
  SimFileSystem disk;
  SimJob job(fibers, {.world_size = static_cast<std::int64_t>(by_rank.size()),
                      .disks = {&disk},
                      .faults = std::move(faults)});
  std::vector<std::string> got(by_rank.size());
  job.start([&](SimJob::Rank& rank) {
    const auto number = static_cast<std::size_t>(rank.number());
    try {
      const auto agreed = agree_over_ranks(rank.table, {.look =
                                                            [&](const auto& keep_alive) {
                                                              keep_alive();
                                                              return by_rank[number];
                                                            },
                                                        .may_lack_all = may_lack_all});
      const AgreedCheckpoint* const furthest = find_furthest(agreed);
      const Verdict why = why_none_is_whole(agreed);
      got[number] = furthest != nullptr ? text_of(*furthest)
                    : why.is_good()     ? "none"
                                        : "not: " + why.why;
    } catch (const StorageError& e) {
      got[number] = fmt::format("errno {}: {}", e.status(), e.what());
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

TEST(AgreeOverRanksTest, PartsThatSayThatTheyWerePublishedLackWhatPublishesThem) {
  EXPECT_THAT(agree({{seen(2)}, {part_of(3, true), seen(2)}}), Each("ba2"));
  EXPECT_THAT(agree({{made_of_files(3, {"a"}, true)}, {made_of_files(3, {"b", "c"})}}),
              Each("ba3 a:0 b:1 c:1"));
  for (const auto& parts : {std::vector{part_of(3, true)}, {part_of(3), part_of(3, true)}}) {
    const auto got = agree({{}, parts, {part_of(3)}});
    EXPECT_THAT(got, Each(got[0]));
    EXPECT_THAT(got[0], HasSubstr("none that all ranks can go on from (ba3: no machine of this job "
                                  "has its .metadata (written on east)). Start the job where"));
  }
}

TEST(AgreeOverRanksTest, ARankThatLostItsPartsIsNamedAndNobodyBeginsAnew) {
  const auto got = agree({{seen(2), seen(1)}, {seen(2), seen(1)}, {}});
  EXPECT_THAT(got, Each(got[0]));
  EXPECT_THAT(got[0], AllOf(HasSubstr("resuming on 3 ranks: rank 0: there are checkpoints, but "
                                      "none that all ranks can go on from"),
                            HasSubstr("ba2: rank 2 does not see it; ba1: rank 2 does not")));
}

TEST(AgreeOverRanksTest, PartsThatRanksReadOfEachOtherMakeOne) {
  EXPECT_THAT(agree({{made_of_files(2, {"a"}, true)},
                     {},  // This machine joined the job later.
                     {made_of_files(2, {"b", "c"})}}),
              Each("ba2 a:0 b:2 c:2"));
  // The publishing rank need not be the first. If several ranks have a file, the lowest of these
  // ranks provides it.
  EXPECT_THAT(agree({{made_of_files(2, {"b"})}, {made_of_files(2, {"a", "b", "c"}, true)}}),
              Each("ba2 a:1 b:0 c:1"));
  // If one name has two contents, the complete one is taken.
  EXPECT_THAT(agree({{made_of_files(2, {"a", "b"}, true, "x"), made_of_files(1, {"a"}, true)},
                     {made_of_files(2, {"a", "b", "c"}, true, "y"), made_of_files(1, {"b", "c"})}}),
              Each("ba2y a:1 b:1 c:1"));
}

TEST(AgreeOverRanksTest, WithoutAPartTheOneBeforeIsTakenAndWithoutAnyOneItIsSaidWhatLacks) {
  EXPECT_THAT(agree({{made_of_files(2, {"a"}, true), made_of_files(1, {"a"}, true)},
                     {made_of_files(2, {"b"}), made_of_files(1, {"b", "c"})}}),
              Each("ba1 a:0 b:1 c:1"));
  const auto got =
      agree({{made_of_files(2, {"a"}, true)}, {made_of_files(2, {"c"}, false, "of another")}});
  EXPECT_THAT(got, Each(got[0]));
  EXPECT_THAT(got[0], HasSubstr("ba2: no machine of this job has b, c (written on east, west)"));
}

TEST(AgreeOverRanksTest, WhatADiskDoesNotGiveIsPassedOverAndNobodyBeginsAnew) {
  SeenCheckpoint lost = seen(2);
  lost.problem = "cannot open ba2/.metadata: it is stale";
  lost.status = ESTALE;
  EXPECT_THAT(agree({{made_of_files(2, {"a", "b"}, true), made_of_files(1, {"a", "b"}, true)},
                     {lost, made_of_files(1, {"c"})}}),
              Each("ba1 a:0 b:0 c:1"));
  // If the other ranks have all files, their checkpoint is taken.
  EXPECT_THAT(agree({{lost}, {made_of_files(2, {"a", "b", "c"}, true)}}), Each("ba2 a:1 b:1 c:1"));
  for (const auto& others : {std::vector<SeenCheckpoint>{}, {made_of_files(2, {"a"}, true)}}) {
    const auto got = agree({others, {lost}});
    EXPECT_THAT(got, Each(got[0]));
    EXPECT_THAT(got[0], AllOf(HasSubstr(fmt::format("errno {}: ", ESTALE)),
                              HasSubstr("none that all ranks can go on from (ba2: rank 1 cannot "
                                        "read it: cannot open ba2/.metadata: it is stale). Repair"),
                              Not(HasSubstr("remove"))));
  }
}

TEST(AgreeOverRanksTest, WhereThereIsElsewhereToLookAllAreToldWhatLacks) {
  const auto got =
      agree({{made_of_files(2, {"a", "c"}, true)}, {}, {made_of_files(2, {"c"})}}, {}, true);
  EXPECT_THAT(got, Each(got[0]));
  EXPECT_THAT(got[0], HasSubstr("not: there are checkpoints, but none that all ranks can go on "
                                "from (ba2: no machine of this job has b (written on east))"));
  EXPECT_THAT(agree({{}, {}}, {}, true), Each("none"));
  EXPECT_THAT(agree({{seen(2), seen(1)}, {seen(1)}}, {}, true), Each("ba1"));
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
