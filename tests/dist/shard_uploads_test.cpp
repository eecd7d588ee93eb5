// Loggers upload sharded checkpoints to another place. The processes are real. Each has its own
// logger. In this file, "here" is the save folder, and "there" is the place of the uploads.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"

#include "job.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using cairn::testing::in_turn;
using cairn::testing::Job;
using cairn::testing::names_in;
using cairn::testing::operator+;
using cairn::testing::part;
using cairn::testing::rest_of_line;
using cairn::testing::TempFolder;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Words = std::vector<std::string>;

// Four batches per epoch.
const Words kUnsaved = {"train", "batch=4", "samples=32", "duration=3ep", "shard=FULL_SHARD"};

class ShardedUploads : public ::testing::Test {
 public:
  Words run(const Words& more) const {
    return kUnsaved +
           Words{"state=sharded", "interval=1ep", "folder=" + here, "sends=" + there.path()} + more;
  }
  std::vector<std::string> kept_here() const { return names_in(here); }
  std::vector<std::string> kept_there() const { return names_in(sent); }
  void lose_what_is_here() const { std::filesystem::remove_all(here); }

  const TempFolder folder;
  const TempFolder there;
  const std::string here = folder / "run";
  // A Trainer gives uploads the same names as the files here.
  const std::string sent = there.path() + here;
};

TEST_F(ShardedUploads, OfAllRanksAreGoneOnFromWhenNothingIsLeftHere) {
  Job job(2, in_turn({kUnsaved, run({"duration=2ep", "keep=1", "async=1", "remote_keep=2"})}));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  EXPECT_THAT(kept_here(), ElementsAre("ep2-ba8", "latest-rank0.pt"));
  EXPECT_THAT(kept_there(), ElementsAre("ep1-ba4", "ep2-ba8", "latest-rank0.pt"));
  verify(sent + "/ep1-ba4");
  EXPECT_EQ(load(sent + "/ep2-ba8").at("state").at("model"),
            load(here + "/ep2-ba8").at("state").at("model"));
  lose_what_is_here();
  Job again(2, in_turn({run({"keep=1", "remote_keep=2"})}));
  ASSERT_THAT(again.exit_codes(), Each(0)) << outputs_of(again);
  for (const std::size_t rank : {0U, 1U}) {
    EXPECT_THAT(again.output(rank), HasSubstr("begins at batch 8"));
    EXPECT_EQ(rest_of_line(again.output(rank), "weights "),
              rest_of_line(part(job.output(rank), 0), "weights "));
  }
  EXPECT_THAT(kept_here(), ElementsAre("ep3-ba12", "latest-rank0.pt"));
  EXPECT_THAT(kept_there(), ElementsAre("ep2-ba8", "ep3-ba12", "latest-rank0.pt"));
}

TEST_F(ShardedUploads, WhatWasGoneOnFromIsRemovedInItsTurnHereAndThere) {
  const Words keeps = {"keep=1", "remote_keep=2"};
  Job job(2, in_turn({run(keeps + Words{"duration=2ep"}), run(keeps)}));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  EXPECT_THAT(part(job.output(0), 1), HasSubstr("begins at batch 8"));
  EXPECT_THAT(kept_here(), ElementsAre("ep3-ba12", "latest-rank0.pt"));
  EXPECT_THAT(kept_there(), ElementsAre("ep2-ba8", "ep3-ba12", "latest-rank0.pt"));
}

// The second evaluation has the largest loss.
TEST_F(ShardedUploads, TheBestStayHereAndThere) {
  const Words keeps = {"keep=1", "remote_keep=1", "best=eval/CrossEntropy"};
  Job job(2, in_turn({run(keeps + Words{"duration=2ep"}), run(keeps)}));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  EXPECT_THAT(part(job.output(0), 1), HasSubstr("begins at batch 8"));
  EXPECT_THAT(kept_here(), ElementsAre("ep2-ba8", "ep3-ba12", "latest-rank0.pt"));
  EXPECT_THAT(kept_there(), ElementsAre("ep2-ba8", "ep3-ba12", "latest-rank0.pt"));
}

// The job runs on two machines, whose folders have different paths.
TEST_F(ShardedUploads, PartsOfAllGoToOnePlaceWhateverTheirFoldersAreCalled) {
  const std::vector<int> nodes = {0, 1};
  Job job(nodes, in_turn({run({"machines=1", "duration=1ep"})}));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  EXPECT_THAT(names_in(sent), ElementsAre("0"));
  EXPECT_THAT(names_in(sent + "/0"), ElementsAre("ep1-ba4", "latest-rank0.pt"));
  verify(sent + "/0/ep1-ba4");
  lose_what_is_here();
  Job again(nodes, in_turn({run({"machines=1", "duration=2ep"})}));
  ASSERT_THAT(again.exit_codes(), Each(0)) << outputs_of(again);
  EXPECT_THAT(again.output(1), HasSubstr("begins at batch 4"));
  verify(sent + "/0/ep2-ba8");
}

// A part of the newest checkpoint is gone here. So that checkpoint does not count as the newest
// here, and all ranks continue from the copy there.
TEST_F(ShardedUploads, WhatLacksPartsHereIsNotTakenForWhatWasGoneOnFrom) {
  const std::vector<int> nodes = {0, 1};
  Job job(nodes, in_turn({run({"machines=1", "duration=2ep"})}));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  std::filesystem::remove_all(here + "/1/ep2-ba8");
  std::filesystem::remove(here + "/0/latest-rank0.pt");
  Job again(nodes, in_turn({run({"machines=1", "duration=2ep"})}));
  ASSERT_THAT(again.exit_codes(), Each(0)) << outputs_of(again);
  EXPECT_THAT(again.output(1), HasSubstr("begins at batch 8"));
  // There is no link to ep2-ba8.
  EXPECT_THAT(names_in(here + "/0"), ElementsAre("ep1-ba4", "ep2-ba8"));
}

// The last save of a job that is stopped. Shortly before, the store could not be reached for a
// moment.
TEST_F(ShardedUploads, ARetryOfWhatFailedThereLeavesWhatIsHereAlone) {
  const Words stopped = {"machines=1", "async=1",       "interval=2ba", "at_batch=2",
                         "how=term",   "fails=ep0-ba2", "fails_times=1"};
  Job job(std::vector<int>{0, 1}, in_turn({run(stopped)}));
  EXPECT_THAT(job.exit_codes(), Each(75)) << outputs_of(job);
  EXPECT_THAT(job.output(0), HasSubstr("an earlier save failed: "));
  verify(sent + "/0/ep0-ba2");
  EXPECT_THAT(names_in(sent + "/0"), ElementsAre("ep0-ba2", "latest-rank0.pt"));
  EXPECT_THAT(names_in(here + "/0"), ElementsAre("ep0-ba2", "latest-rank0.pt"));
}

// A folder blocks the save's name here, so the save fails here. The upload still succeeds there.
TEST_F(ShardedUploads, WhatFailsHereIsSentAllTheSame) {
  Job job(std::vector<int>{0, 1}, in_turn({run({"machines=1", "duration=1ep", "at_batch=2",
                                                "how=mkdir", "makes=" + here + "/0/ep1-ba4"})}));
  EXPECT_THAT(job.exit_codes(), Each(2));
  for (const auto& rank : job.ranks)
    EXPECT_THAT(rank->output(), HasSubstr("is there already"));
  verify(sent + "/0/ep1-ba4");
}

TEST_F(ShardedUploads, NothingIsHereWhenNothingIsToBeKept) {
  Job job(2, in_turn({kUnsaved, run({"duration=2ep", "keep=0", "remote_keep=1"})}));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  EXPECT_THAT(kept_here(), IsEmpty());
  EXPECT_THAT(kept_there(), ElementsAre("ep2-ba8", "latest-rank0.pt"));
  // Another number of ranks reads its rows from there, and removes what the first job kept.
  Job again(3, in_turn({run({"batch=2", "keep=0", "remote_keep=1"})}));
  ASSERT_THAT(again.exit_codes(), Each(0)) << outputs_of(again);
  EXPECT_THAT(again.output(2), HasSubstr("begins at batch 8"));
  const std::vector<std::string> kept = kept_there();
  ASSERT_EQ(kept.size(), 2U) << ::testing::PrintToString(kept);
  EXPECT_THAT(kept.front(), Not(HasSubstr("ep2-ba8")));
}

TEST_F(ShardedUploads, OneThatCannotBeSentIsAnErrorOfAllAndNothingTornIsThere) {
  Job job(2, in_turn({run({"fails=ep2-ba8"})}));
  EXPECT_THAT(job.exit_codes(), Each(2));
  for (const auto& rank : job.ranks)
    EXPECT_THAT(rank->output(), HasSubstr("rank 1: "));
  EXPECT_THAT(job.output(0), HasSubstr("the line is cut"));
  EXPECT_THAT(kept_here(), ElementsAre("ep1-ba4", "ep2-ba8", "latest-rank0.pt"));
  const auto newest = find_latest(sent, {.run_name = "job"});
  ASSERT_TRUE(newest);
  EXPECT_THAT(newest->path, HasSubstr("ep1-ba4"));
  // The checkpoint here is further in training.
  Job again(2, in_turn({kUnsaved, run({})}));
  ASSERT_THAT(again.exit_codes(), Each(0)) << outputs_of(again);
  EXPECT_THAT(again.output(0), HasSubstr("begins at batch 8"));
  EXPECT_EQ(rest_of_line(part(again.output(0), 1), "weights "),
            rest_of_line(part(again.output(0), 0), "weights "));
  verify(sent + "/ep3-ba12");
}

TEST_F(ShardedUploads, EachRankNeedsTheLogger) {
  Job job(2, in_turn({run({"sender=1"})}));
  EXPECT_THAT(job.exit_codes(), Each(2));
  for (const auto& rank : job.ranks)
    EXPECT_THAT(rank->output(), HasSubstr("give all ranks the same loggers"));
}

}  // namespace
}  // namespace cairn
