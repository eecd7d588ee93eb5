// Files that several ranks save and load, and ranks that wait for these files.
#include <gmock/gmock.h>

#include <string>

#include "job.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using cairn::testing::Command;
using cairn::testing::Gate;
using cairn::testing::in_turn;
using cairn::testing::Job;
using cairn::testing::operator+;
using cairn::testing::part;
using cairn::testing::program;
using cairn::testing::rest_of_line;
using cairn::testing::TempFolder;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Rank 0's save takes longer than the time limit of the other ranks.
TEST(DistFiles, NobodyGivesUpOnASaveThatIsSlow) {
  const TempFolder folder;
  Gate gate;
  Job job(2, program({"train", "slow_ms=16000", "timeout_ms=6000", "duration=3ba",
                      "folder=" + folder.path(), gate.argument()}));
  gate.open_for({&job});
  EXPECT_THAT(job.exit_codes(), Each(0)) << job.output(0) << job.output(1);
  EXPECT_THAT(job.output(0), HasSubstr("saves slowly"));
  EXPECT_THAT(job.output(1), HasSubstr("ends at batch 3"));
}

// Each case has its own folder. A launcher need not set the number of processes on a machine.
TEST(DistFiles, WhatOneRankDoesForAllAndWhatEachDoes) {
  const TempFolder folder;
  const Command far = {"train", "far=1", "folder=" + folder / "far"};
  const Command cases =
      in_turn({far + Command{"duration=2ba"},
               far + Command{"duration=4ba"},
               {"train", "uploads=1", "duration=2ba", "folder=" + folder / "uploads"},
               {"train", "run_directory=1", "interval=1ep", "folder=" + folder / "run_directory"},
               {"train", "events=1", "folder=" + folder / "events"},
               {"train", "names=1", "nodes=1", "duration=1ba"}});
  Job job(3, Command{"/usr/bin/env", "-u", "LOCAL_WORLD_SIZE", "-u", "LOCAL_RANK"} + cases);
  ASSERT_THAT(job.exit_codes(), Each(0)) << job.output(0) << job.output(1);
  for (std::size_t number = 0; number < 6; ++number) {
    EXPECT_EQ(rest_of_line(part(job.output(2), number), "weights "),
              rest_of_line(part(job.output(0), number), "weights "));
  }
  // The first rank of the machine fetches the checkpoint that all ranks load.
  EXPECT_GT(std::stoll(rest_of_line(part(job.output(0), 1), "read ")), 1000);
  for (const std::size_t rank : {1, 2}) {
    EXPECT_EQ(rest_of_line(part(job.output(rank), 1), "read "), "0");
    EXPECT_THAT(part(job.output(rank), 1), HasSubstr("begins at batch 2"));
  }
  EXPECT_THAT(part(job.output(0), 1),
              AllOf(HasSubstr("autoresume: going on from " + folder / "far"),
                    Not(HasSubstr("warning: there is no copy"))));
  EXPECT_THAT(part(job.output(0), 5),
              AllOf(HasSubstr("num_nodes 1\n"), HasSubstr("num_cpus_per_node 3\n")));
  EXPECT_THAT(part(job.output(0), 2), AllOf(HasSubstr("file /sent/"), HasSubstr("ep0-ba2-rank0.pt"),
                                            Not(HasSubstr("file /ep0-ba2"))));
  EXPECT_THAT(part(job.output(0), 3),
              AllOf(HasSubstr("file /sent/rank_0/note"), HasSubstr("file /sent/rank_1/note"),
                    HasSubstr("file /sent/rank_2/note")));
  EXPECT_THAT(part(job.output(0), 4), AllOf(HasSubstr("file /1ep/ep1-ba4-rank0.pt"),
                                            HasSubstr("file /4ba/ep0-ba4-rank0.pt")));
  // Rank 1's losses have names that the other ranks do not know: on those ranks they count as 0.
  for (const std::size_t rank : {0, 1, 2}) {
    EXPECT_THAT(part(job.output(rank), 5),
                AllOf(HasSubstr("loss loss/train/ce"), HasSubstr("loss loss/train/l2"),
                      HasSubstr("loss loss/train/total")));
  }
}

// A requested stop excuses a failed save, but not a rank that is gone.
TEST(DistFiles, ARankThatDiesInASaveEndsTheJob) {
  const TempFolder folder;
  Job job(2, program({"train", "rank=0", "at_batch=2", "how=term", "before_save=1",
                      "folder=" + folder.path()}));
  EXPECT_THAT(job.exit_codes(), ElementsAre(3, -1));
  EXPECT_THAT(job.output(0),
              AllOf(HasSubstr("DistError"), HasSubstr("rank 1 did not come"),
                    Not(HasSubstr("a save failed")), Not(HasSubstr("any more, since"))));
}

// If ranks loaded different checkpoints, some would silently continue with another run's optimizer
// state.
TEST(DistFiles, AllRanksGoOnFromTheCheckpointThatOneFound) {
  const TempFolder folder;
  const std::string name = "ep0-ba2-rank0.pt";
  Job first(2, in_turn({{"train", "duration=2ba", "folder=" + folder / "own"},
                        {"train", "duration=2ba", "samples=48", "folder=" + folder / "other"}}));
  ASSERT_THAT(first.exit_codes(), Each(0)) << first.output(0) << first.output(1);
  const auto resume = [&](const Command& more) {
    return program(Command{"train", "duration=3ba", "folder=" + folder / "own"} + more);
  };
  Job swapped(2, resume({"swap=" + folder / "other/" + name, "over=" + folder / "own/" + name}));
  EXPECT_THAT(swapped.exit_codes(), Each(2));
  EXPECT_THAT(swapped.output(1), AllOf(HasSubstr(name), HasSubstr("it was replaced meanwhile"),
                                       Not(HasSubstr("begins at"))));
  Job again(2, resume({"samples=48"}));  // All load the checkpoint that has the name now.
  EXPECT_THAT(again.exit_codes(), Each(0)) << again.output(0);
  EXPECT_THAT(again.output(1), HasSubstr("begins at batch 2"));
}

// load_path works the same, whether each rank reads from the store itself, or one rank reads for
// its whole machine.
TEST(DistFiles, AllRanksLoadTheCheckpointThatRankZeroOpened) {
  for (const std::vector<int>& nodes : {std::vector{0, 1}, std::vector{0, 0}}) {
    const TempFolder folder;
    const std::string file = "/ep0-ba2-rank0.pt";
    Job first(2, in_turn({{"train", "duration=2ba", "folder=" + folder / "own"},
                          {"train", "duration=2ba", "samples=48", "folder=" + folder / "other"}}));
    ASSERT_THAT(first.exit_codes(), Each(0)) << first.output(0) << first.output(1);
    const std::string path = folder / "own" + file;
    const Command load = {"train", "duration=3ba", "folder=" + folder / "new", "load=" + path};
    Job swapped(nodes, program(load + Command{"swap=" + folder / "other" + file, "over=" + path}));
    EXPECT_THAT(swapped.exit_codes(), Each(2)) << swapped.output(0) << swapped.output(1);
    EXPECT_THAT(swapped.output(1), AllOf(HasSubstr("is not the checkpoint that rank 0 found"),
                                         Not(HasSubstr("begins at"))));
    // All load the checkpoint that has the name now.
    Job again(nodes, program(load + Command{"samples=48"}));
    EXPECT_THAT(again.exit_codes(), Each(0)) << again.output(0) << again.output(1);
    EXPECT_THAT(again.output(1), HasSubstr("begins at batch 2"));
  }
}

// The pointer of a run that still saves is moved after rank 0 has opened its target.
TEST(DistFiles, AllRanksLoadWhatThePointerSaidToRankZero) {
  for (const std::vector<int>& nodes : {std::vector{0, 1}, std::vector{0, 0}}) {
    const TempFolder folder;
    Job first(2, program({"train", "duration=2ba", "folder=" + folder / "own"}));
    ASSERT_THAT(first.exit_codes(), Each(0)) << first.output(0) << first.output(1);
    const std::string pointer = folder / "own/pointer";
    std::filesystem::create_symlink("ep0-ba1-rank0.pt", pointer);
    std::filesystem::create_symlink("ep0-ba2-rank0.pt", folder / "own/next");
    Job moved(nodes,
              program({"train", "duration=3ba", "folder=" + folder / "new", "load=" + pointer,
                       "swap=" + folder / "own/next", "over=" + pointer}));
    EXPECT_THAT(moved.exit_codes(), Each(0)) << moved.output(0) << moved.output(1);
    EXPECT_EQ(std::filesystem::read_symlink(pointer), "ep0-ba2-rank0.pt");
    for (const std::size_t rank : {0, 1})
      EXPECT_THAT(moved.output(rank), HasSubstr("begins at batch 1"));
  }
}

// If other ranks went on, they would begin to load a checkpoint that nothing is compared with.
TEST(DistFiles, NoRankLoadsWhatRankZeroCouldNotOpen) {
  const TempFolder folder;
  Job first(2, program({"train", "duration=2ba", "folder=" + folder / "own"}));
  ASSERT_THAT(first.exit_codes(), Each(0)) << first.output(0) << first.output(1);
  Job failed(std::vector{0, 1},
             program({"train", "duration=3ba", "folder=" + folder / "new",
                      "load=" + folder / "own/ep0-ba2-rank0.pt", "fails_open=1"}));
  EXPECT_THAT(failed.exit_codes(), Each(2)) << failed.output(0) << failed.output(1);
  EXPECT_THAT(failed.output(0), HasSubstr("the line is cut"));
  EXPECT_THAT(failed.output(1), AllOf(HasSubstr("rank 0, opening "), HasSubstr("the line is cut"),
                                      Not(HasSubstr("begins at"))));
}

}  // namespace
}  // namespace cairn
