// Checkpoints that all ranks write together, in a store that cannot be reached for a time. Only
// rank 0 loses the store; the other ranks learn this from rank 0. Real processes on this machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/exit_code.h"

#include "job.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using cairn::testing::Job;
using cairn::testing::names_in;
using cairn::testing::operator+;
using cairn::testing::in_turn;
using cairn::testing::part;
using cairn::testing::TempFolder;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAreArray;

using Words = std::vector<std::string>;

struct Layout {
  Words words;                     // Arguments of the program.
  std::vector<std::string> names;  // The names of a checkpoint's files, with # for the batch.
  std::vector<std::string> links;
};

const Layout kFolderLayout = {{"shard=FULL_SHARD", "state=sharded"}, {"ba#"}, {"latest-rank0.pt"}};
const Layout kTarLayout = {{"deepspeed=2"},
                           {"ba#-rank0.pt.tar", "ba#-rank1.pt.tar"},
                           {"latest-rank0.pt.tar", "latest-rank1.pt.tar"}};

// 12 batches, each of which is saved.
class StoreAwayOfRanks : public ::testing::TestWithParam<Layout> {
 protected:
  Words run() const {
    return Words{"train",        "float=1", "batch=4", "samples=112", "duration=12ba",
                 "interval=1ba", "async=1", "far=1",   "saves=1",     "folder=" + folder_.path()} +
           GetParam().words;
  }

  static std::string name_of(std::string name, int batch) {
    return "ep0-" + name.replace(name.find('#'), 1, std::to_string(batch));
  }

  // Expects that the folder holds complete checkpoints of exactly these batches.
  void expect_saved(const std::vector<int>& batches) const {
    std::vector<std::string> expected = GetParam().links;
    for (const int batch : batches) {
      for (const std::string& name : GetParam().names) {
        expected.push_back(name_of(name, batch));
        EXPECT_TRUE(verify(folder_ / expected.back()).ok()) << expected.back();
      }
    }
    EXPECT_THAT(names_in(folder_.path()), UnorderedElementsAreArray(expected));
  }

  // Expects that a rank whose files have their own names says that it saved these batches.
  void expect_reported(const std::string& output, std::size_t rank,
                       const std::vector<int>& batches) const {
    for (int batch = 1; batch <= 12; ++batch) {
      const std::string line = "kept " + name_of(GetParam().names.at(rank), batch) + "\n";
      const bool is_saved = std::ranges::find(batches, batch) != batches.end();
      EXPECT_EQ(output.find(line) != std::string::npos, is_saved) << line << output;
    }
  }

  const TempFolder folder_;
};

TEST_P(StoreAwayOfRanks, TrainingGoesOnAndAllLeaveOutTheSameSaves) {
  Job job(2, in_turn({run() + Words{"away_from=3", "away_to=7"}, run() + Words{"duration=13ba"}}));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  const std::string said = part(job.output(0), 0);
  EXPECT_THAT(said, AllOf(HasSubstr("no connection"), HasSubstr("trying again in"),
                          HasSubstr("ends at batch 12")));
  const std::vector<int> saved = {1, 2, 3, 4, 8, 9, 10, 11, 12};
  for (int batch = 1; batch <= 12; ++batch) {
    const bool is_saved = std::ranges::find(saved, batch) != saved.end();
    const std::string line = "skipped " + folder_ / name_of(GetParam().names.at(0), batch) +
                             ": the store cannot be reached";
    EXPECT_EQ(said.find(line) == std::string::npos, is_saved) << line;
  }
  for (std::size_t rank = 0; rank < GetParam().names.size(); ++rank)
    expect_reported(part(job.output(rank), 0), rank, saved);
  for (const auto& rank : job.ranks)
    EXPECT_THAT(part(rank->output(), 1), HasSubstr("begins at batch 12"));
  std::vector<int> all = saved;
  all.push_back(13);
  expect_saved(all);
}

TEST_P(StoreAwayOfRanks, PatienceEndsTheRunOnAllRanksWithTheError) {
  Job job(2, in_turn({run() + Words{"away_from=3", "patience=1", "may_fail=1"}}));
  EXPECT_THAT(job.exit_codes(), Each(kStorage)) << outputs_of(job);
  for (const auto& rank : job.ranks) {
    EXPECT_THAT(rank->output(), AllOf(HasSubstr("error: "), HasSubstr("save_store_patience"),
                                      HasSubstr("no connection"), Not(HasSubstr("ends at batch"))));
  }
  expect_saved({1, 2, 3});
}

INSTANTIATE_TEST_SUITE_P(Layouts, StoreAwayOfRanks, ::testing::Values(kFolderLayout, kTarLayout),
                         [](const auto& one) { return one.index == 0 ? "Folder" : "Tars"; });

}  // namespace
}  // namespace cairn
