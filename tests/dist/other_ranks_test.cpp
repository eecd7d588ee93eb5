// Runs that continue with another number of ranks, inside an epoch and between two epochs.
#include <gmock/gmock.h>

#include <filesystem>
#include <map>
#include <string>

#include "job.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using cairn::testing::Command;
using cairn::testing::expect_near;
using cairn::testing::in_turn;
using cairn::testing::Job;
using cairn::testing::losses_of;
using cairn::testing::operator+;
using cairn::testing::part;
using cairn::testing::program;
using cairn::testing::rest_of_line;
using cairn::testing::TempFolder;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;

// A run of digits. A batch of all ranks together has 32 samples; with three ranks, 33. An epoch has
// 45 batches of 32.
Command digits_of(int ranks, const std::string& folder) {
  return {"train",         "data=digits",  "batch=" + std::to_string((32 + ranks - 1) / ranks),
          "duration=50ba", "interval=1ep", "folder=" + folder};
}

// The losses after batch `first`, up to batch `last`.
std::map<int, double> losses_between(const std::map<int, double>& all, int first, int last) {
  return {all.upper_bound(first), all.upper_bound(last)};
}

// Batch 20 is inside an epoch. After batch 45 only the end of the epoch is left. In batch 45, four
// ranks repeat other samples than two ranks.
TEST(DistOtherRanks, DigitsOfFourGoOnWithTwoWithOneAndWithThree) {
  const TempFolder folder;
  const auto stopped_at = [](int batch) {
    return Command{"at_batch=" + std::to_string(batch), "how=term"};
  };
  Job of_four(4, in_turn({digits_of(4, folder / "at20") + stopped_at(20),
                          digits_of(4, folder / "at45") + stopped_at(45),
                          digits_of(4, folder / "undisturbed")}));
  ASSERT_THAT(of_four.exit_codes(), Each(0)) << of_four.output(0);
  const auto expected = losses_of(part(of_four.output(0), 2));
  const auto copy_of = [&](const std::string& saved, int ranks) {
    const std::string to = folder / (saved + "-" + std::to_string(ranks));
    using Options = std::filesystem::copy_options;
    std::filesystem::copy(folder / saved, to, Options::recursive | Options::copy_symlinks);
    return to;
  };
  for (const int ranks : {2, 1}) {
    SCOPED_TRACE(ranks);
    Job job(ranks, in_turn({digits_of(ranks, copy_of("at20", ranks)),
                            digits_of(ranks, copy_of("at45", ranks))}));
    ASSERT_THAT(job.exit_codes(), Each(0)) << job.output(0);
    const std::string inside = part(job.output(0), 0);
    EXPECT_THAT(inside, HasSubstr("begins at batch 20\n"));
    expect_near(losses_between(losses_of(inside), 20, 44), losses_between(expected, 20, 44), 1e-5);
    const std::string behind = part(job.output(0), 1);
    EXPECT_THAT(behind, HasSubstr("begins at batch 45\n"));
    expect_near(losses_of(behind), losses_between(expected, 45, 50), 1e-5);
  }

  // Three ranks have one more sample in a batch, and are stopped again in the rest of the epoch.
  const std::string twice = copy_of("at20", 33);
  Job job(3, in_turn({digits_of(3, copy_of("at20", 3)), digits_of(3, twice) + stopped_at(27),
                      digits_of(3, twice), digits_of(3, copy_of("at45", 3))}));
  ASSERT_THAT(job.exit_codes(), Each(0)) << job.output(0);
  const std::string output = part(job.output(0), 0);
  EXPECT_THAT(output,
              AllOf(HasSubstr("after 640 of its samples: the others are dealt to 3"),
                    HasSubstr("batch 21 samples 673 "), HasSubstr("batch 22 samples 706 "),
                    // 797 samples were left: 24 batches of 33, and one of 6, with one sample twice.
                    HasSubstr("batch 45 samples 1438 "), HasSubstr("batch 46 samples 1471 ")));
  EXPECT_NEAR(losses_of(output).at(21), expected.at(21), 0.1);
  EXPECT_THAT(part(job.output(0), 2), HasSubstr("begins at batch 27"));
  EXPECT_THAT(part(job.output(0), 3), HasSubstr("batch 46 samples 1473 "));
  for (const std::size_t rank : {0, 1, 2}) {
    EXPECT_EQ(rest_of_line(part(job.output(rank), 2), "weights "),
              rest_of_line(output, "weights "));
  }
}

// Each rank's batch keeps its size, so epochs have a different number of batches.
TEST(DistOtherRanks, RanksThatKeepTheirBatchesHaveOthersOfAllTogether) {
  const TempFolder folder;
  const Command run = {"train",        "dropout=30",   "samples=40",
                       "duration=3ep", "interval=1ep", "folder=" + folder.path()};
  Job of_two(2, program(run + Command{"at_batch=5", "how=term"}));
  EXPECT_THAT(of_two.exit_codes(), Each(75));
  Job of_three(3, program(run + Command{"at_batch=9", "how=term"}));
  EXPECT_THAT(of_three.exit_codes(), Each(75)) << of_three.output(0);
  EXPECT_THAT(of_three.output(2),
              AllOf(HasSubstr("begins at batch 5"),
                    // 20 samples were left: 3 batches of 6, and one of 3, with one sample twice.
                    HasSubstr("batch 8 samples 38 "), HasSubstr("batch 9 samples 41 ")));
  EXPECT_THAT(of_three.output(0), HasSubstr("warning"));
  Job of_one(1, program(run));
  EXPECT_THAT(of_one.exit_codes(), Each(0)) << of_one.output(0);
  EXPECT_THAT(of_one.output(0),
              AllOf(HasSubstr("begins at batch 9\n"), HasSubstr("ends at batch 49")));
}

// The example program, killed three times with all of its processes.
TEST(DistOtherRanks, TheExampleGoesOnWithWhateverRanksThereAre) {
  const TempFolder folder;
  const Command digits = {DIGITS_PROGRAM, "--save-folder", folder.path(),    "--save-interval",
                          "5ba",          "--autoresume",  "--max-duration", "4ep"};
  const std::map<int, int> kills = {{20, 4}, {60, 2}, {100, 1}};
  for (const auto& [batch, ranks] : kills) {
    Job job(ranks, digits + Command{"--kill-at-batch", std::to_string(batch)});
    // A process that is killed a moment later than the others may see that they are gone.
    EXPECT_THAT(job.exit_codes(), Each(AnyOf(-1, 3))) << job.output(0);
  }
  Job last(3, digits);
  EXPECT_THAT(last.exit_codes(), Each(0)) << last.output(0);
  EXPECT_THAT(last.output(0), AllOf(HasSubstr("of its samples: the others are dealt to 3"),
                                    HasSubstr("test accuracy 0.9")));
}

}  // namespace
}  // namespace cairn
