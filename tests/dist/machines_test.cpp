// Jobs on several machines without a common file system, as the launcher's variables make them:
// each machine has its own folder, under another path. The processes are real. Each is a
// dist_program.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"

#include "job.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using cairn::testing::Command;
using cairn::testing::in_turn;
using cairn::testing::Job;
using cairn::testing::names_in;
using cairn::testing::operator+;
using cairn::testing::part;
using cairn::testing::program;
using cairn::testing::rest_of_line;
using cairn::testing::TempFolder;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using Nodes = std::vector<int>;

// 4 batches per epoch on 4 ranks.
const Command kMachinesRun = {"train",      "norm=1",           "batch=4",     "samples=64",
                              "dropout=30", "shard=FULL_SHARD", "clip=norm",   "interval=1ep",
                              "machines=1", "timeout_ms=60000", "duration=3ep"};
const Command kInParts = kMachinesRun + Command{"state=sharded"};

Command in(const TempFolder& folder) { return {"folder=" + folder.path()}; }

// Flips the first byte of each tensor in a data file, and keeps the structure of the file. The byte
// follows the local header of the tensor's entry in the zip file.
void flip_elements(const std::string& path) {
  std::string bytes;
  {
    std::ifstream file(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  int flipped = 0;
  const std::string name = "/data/0";
  for (auto at = bytes.find("PK\x03\x04"); at != std::string::npos;
       at = bytes.find("PK\x03\x04", at + 4)) {
    const auto number = [&](std::size_t offset) {
      return static_cast<std::size_t>(static_cast<unsigned char>(bytes.at(at + offset))) +
             256 * static_cast<std::size_t>(static_cast<unsigned char>(bytes.at(at + offset + 1)));
    };
    const std::size_t end = at + 30 + number(26);
    if (bytes.substr(end - name.size(), name.size()) != name) continue;
    bytes.at(end + number(28)) ^= 1;
    ++flipped;
  }
  EXPECT_GT(flipped, 0);
  std::ofstream(path, std::ios::binary) << bytes;
}

void expect_to_begin_at(const Job& job, int batch) {
  const std::string text = "begins at batch " + std::to_string(batch) + "\n";
  for (const auto& rank : job.ranks)
    EXPECT_THAT(rank->output(), HasSubstr(text)) << outputs_of(job);
}

// Two epochs that 4 ranks on 2 machines have saved. Each machine has the parts of its ranks.
class TwoMachines : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    saved_ = new TempFolder();
    Job job(Nodes{0, 0, 1, 1}, in_turn({kInParts + in(*saved_) + Command{"duration=2ep"},
                                        kInParts}));  // Without a folder, so nothing is saved.
    ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
    for (const auto& rank : job.ranks)
      unbroken_.push_back(rest_of_line(part(rank->output(), 1), "weights "));
  }
  static void TearDownTestSuite() { delete saved_; }

  TwoMachines() {
    std::filesystem::copy(
        saved_->path(), folder_.path(),
        std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
  }

  static void expect_unbroken(const Job& job) {
    for (std::size_t rank = 0; rank < unbroken_.size(); ++rank)
      EXPECT_EQ(rest_of_line(job.output(rank), "weights "), unbroken_[rank]) << rank;
  }

  std::string machine(int number) const { return folder_.path() + "/" + std::to_string(number); }

  static inline TempFolder* saved_ = nullptr;
  static inline std::vector<std::string> unbroken_;  // The final weights of each rank.
  const TempFolder folder_;
};

TEST_F(TwoMachines, EachHasItsPartsAndARunGoesOnBitForBit) {
  EXPECT_THAT(names_in(machine(0) + "/ep2-ba8"),
              ElementsAre(".cairn_manifest.json", ".metadata", "__0_0.distcp", "__1_0.distcp"));
  EXPECT_THAT(
      names_in(machine(1) + "/ep2-ba8"),
      ElementsAre(".cairn_manifest.json", ".cairn_published", "__2_0.distcp", "__3_0.distcp"));
  const std::string mark = machine(1) + "/ep2-ba8/.cairn_published";
  // As if the machine's rank had died before it could write the mark.
  std::filesystem::remove(mark);
  Job job(Nodes{0, 0, 1, 1}, program(kInParts + in(folder_)));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  EXPECT_TRUE(std::filesystem::exists(mark));
  EXPECT_THAT(outputs_of(job), Not(HasSubstr("warning: nobody")));
  expect_to_begin_at(job, 8);
  expect_unbroken(job);
}

// Ranks find the parts wherever they lie. The cases: three machines, one of which is new; the two
// machines in another order, with one rank each; the same machines with two ranks each.
TEST_F(TwoMachines, AnyNumberOfRanksOnAnyMachinesGoesOn) {
  for (const Nodes& nodes : {Nodes{0, 1, 2}, Nodes{1, 0}, Nodes{1, 1, 0, 0}}) {
    const TempFolder folder;
    std::filesystem::copy(
        folder_.path(), folder.path(),
        std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
    // All ranks together keep the same number of samples in a batch, if that is possible.
    const std::string batch = nodes.size() == 2 ? "batch=8" : "batch=4";
    Job job(nodes, program(kInParts + in(folder) + Command{batch}));
    ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
    expect_to_begin_at(job, 8);
  }
}

TEST_F(TwoMachines, WithoutAPartAllTakeTheOneBeforeAndWriteItAnew) {
  std::filesystem::remove(machine(1) + "/ep2-ba8/__3_0.distcp");
  Job job(Nodes{0, 0, 1, 1}, program(kInParts + in(folder_)));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  expect_to_begin_at(job, 4);
  EXPECT_THAT(job.output(0), AllOf(HasSubstr("autoresume skipped " + machine(0) +
                                             "/ep2-ba8: no "
                                             "machine of this job has __3_0.distcp (written on "),
                                   HasSubstr("ep2-ba8 to .damaged")));
  expect_unbroken(job);
  EXPECT_TRUE(std::filesystem::exists(machine(1) + "/ep2-ba8/__3_0.distcp"));
}

TEST_F(TwoMachines, DamageThatOneRankReadsIsPassedOverByAll) {
  flip_elements(machine(1) + "/ep2-ba8/__3_0.distcp");
  Job job(Nodes{0, 0, 1, 1}, program(kInParts + in(folder_)));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  expect_to_begin_at(job, 4);
  expect_unbroken(job);
}

TEST_F(TwoMachines, WhereTheOtherMachineIsGoneNobodyBeginsAnew) {
  std::filesystem::remove_all(machine(1));
  Job job(Nodes{0, 0, 2, 2}, program(kInParts + in(folder_)));
  EXPECT_THAT(job.exit_codes(), Each(2)) << outputs_of(job);
  for (const auto& rank : job.ranks) {
    EXPECT_THAT(rank->output(),
                AllOf(HasSubstr("none that all ranks can go on from (ep2-ba8: no machine of this "
                                "job has __2_0.distcp, __3_0.distcp (written on "),
                      HasSubstr("/1)"), Not(HasSubstr("begins at"))));
  }
}

// The first machine has the files that publish the checkpoints. That machine is gone, or has come
// back without its disk.
TEST_F(TwoMachines, WhereTheFirstMachineIsGoneNobodyBeginsAnewEither) {
  std::filesystem::rename(machine(0), machine(9));
  for (const Nodes& nodes : {Nodes{2, 2, 1, 1}, Nodes{1, 1, 2, 2}, Nodes{0, 0, 1, 1}}) {
    Job job(nodes, program(kInParts + in(folder_)));
    EXPECT_THAT(job.exit_codes(), Each(2)) << outputs_of(job);
    for (const auto& rank : job.ranks) {
      EXPECT_THAT(rank->output(),
                  AllOf(HasSubstr("none that all ranks can go on from (ep2-ba8: no machine of this "
                                  "job has its .metadata (written on "),
                        HasSubstr("/0); ep1-ba4: no "), Not(HasSubstr("begins at"))));
    }
  }
  std::filesystem::remove_all(machine(0));
  std::filesystem::rename(machine(9), machine(0));
  Job job(Nodes{0, 0, 1, 1}, program(kInParts + in(folder_)));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  expect_to_begin_at(job, 8);
  expect_unbroken(job);
}

// A logger's copy, which has the parts of all ranks, is complete.
TEST_F(TwoMachines, WhereTheOtherMachineIsGoneAndALoggerHasAllOfItAllGoOnFromThere) {
  const TempFolder there;
  const std::string sent = there.path() + machine(0);
  std::filesystem::create_directories(sent);
  std::filesystem::copy(machine(1) + "/ep2-ba8", sent + "/ep2-ba8");
  std::filesystem::copy(
      machine(0) + "/ep2-ba8", sent + "/ep2-ba8",
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  std::filesystem::remove_all(machine(1));
  Job job(Nodes{0, 0, 2, 2},
          program(kInParts + in(folder_) + Command{"sends=" + there.path(), "duration=2ep"}));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  expect_to_begin_at(job, 8);
  std::filesystem::remove_all(sent);
  Job alone(Nodes{0, 0, 2, 2}, program(kInParts + in(folder_) + Command{"sends=" + there.path()}));
  EXPECT_THAT(alone.exit_codes(), Each(2)) << outputs_of(alone);
  for (const auto& rank : alone.ranks)
    EXPECT_THAT(rank->output(), HasSubstr("none that all ranks can go on from (ep2-ba8: no "));
}

TEST_F(TwoMachines, OneMachineAloneDoesNotBeginAnew) {
  Job job(1, program(kInParts + Command{"folder=" + folder_.path()}));
  EXPECT_THAT(job.exit_codes(), Each(2)) << outputs_of(job);
  EXPECT_THAT(job.output(0), HasSubstr("on machines that are not in this job"));
  std::filesystem::remove_all(folder_.path() + "/0");
  std::filesystem::rename(machine(1), folder_.path() + "/0");
  Job second(1, program(kInParts + Command{"folder=" + folder_.path()}));
  EXPECT_THAT(second.exit_codes(), Each(2)) << outputs_of(second);
  EXPECT_THAT(second.output(0), HasSubstr("on machines that are not in this job"));
}

TEST(SeveralMachines, AKilledRunGoesOnBitForBitAndNobodyKeepsMoreThanAsked) {
  const TempFolder folder;
  const Command run = kInParts + in(folder) + Command{"interval=1ba", "keep=2", "async=1"};
  const Nodes nodes = {0, 1, 1};
  Job killed(nodes, program(run + Command{"at_batch=7", "how=dead", "rank=2"}));
  EXPECT_THAT(killed.exit_codes(), Contains(-1)) << outputs_of(killed);
  Job again(nodes, in_turn({run, kInParts}));
  ASSERT_THAT(again.exit_codes(), Each(0)) << outputs_of(again);
  for (const auto& rank : again.ranks) {
    EXPECT_THAT(part(rank->output(), 0), Not(HasSubstr("begins at batch 0\n")));
    EXPECT_EQ(rest_of_line(part(rank->output(), 0), "weights "),
              rest_of_line(part(rank->output(), 1), "weights "));
  }
  // Two checkpoints and the link.
  EXPECT_THAT(names_in(folder.path() + "/0"), ::testing::SizeIs(3));
  EXPECT_THAT(names_in(folder.path() + "/1"), ::testing::SizeIs(2));
}

// All ranks report an error of one rank before the first batch at once; no rank waits for the time
// limit.
TEST(SeveralMachines, AFolderThatOneOfThemCannotHaveStopsAllAndTheErrorNamesTheRank) {
  for (const int machine : {0, 1}) {
    const TempFolder folder;
    std::ofstream(folder / std::to_string(machine)) << "a file";
    const Nodes nodes = {0, 1, 1};
    Job job(nodes, program(kInParts + in(folder) + Command{"timeout_ms=600000"}));
    EXPECT_THAT(job.exit_codes(), Each(2)) << outputs_of(job);
    const int rank = machine == 0 ? 0 : 1;  // The first rank on that machine.
    const std::string who = "rank " + std::to_string(rank) + ", preparing ";
    for (int other = 0; other < 3; ++other) {
      EXPECT_THAT(job.output(static_cast<std::size_t>(other)),
                  other == rank ? HasSubstr("is not a folder") : HasSubstr(who))
          << other;
    }
  }
}

// Rank 0 writes one file. All other ranks get the file from rank 0's machine, whether they read all
// of the file or only their rows, and wherever rank 0 runs the next time.
TEST(SeveralMachines, OneFileOfOneMachineIsLoadedByAll) {
  for (const std::string how : {"shard=NO_SHARD", "shard=FULL_SHARD"}) {
    const TempFolder folder;
    const Command run = kMachinesRun + in(folder) + Command{how};
    Job first(Nodes{0, 1, 1},
              in_turn({run + Command{"duration=1ep"}, kMachinesRun + Command{how}}));
    ASSERT_THAT(first.exit_codes(), Each(0)) << outputs_of(first);
    EXPECT_FALSE(std::filesystem::exists(folder.path() + "/1"));
    const Value written = load(folder.path() + "/0/latest-rank0.pt");
    EXPECT_EQ(*find_path(written, "state/metadata/composer_env_info/num_nodes"), Value(2));
    const std::string file = rest_of_line(part(first.output(0), 0), "ends at batch ");
    Job again(Nodes{0, 1, 1}, program(run));
    ASSERT_THAT(again.exit_codes(), Each(0)) << outputs_of(again);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      EXPECT_THAT(again.output(rank), HasSubstr("begins at batch " + file));
      EXPECT_EQ(rest_of_line(again.output(rank), "weights "),
                rest_of_line(part(first.output(rank), 1), "weights "));
    }
    Job moved(Nodes{1, 0, 0}, in_turn({run + Command{"load_here=/latest-rank0.pt", "duration=9ep"},
                                       run + Command{"duration=10ep"}}));
    EXPECT_THAT(moved.exit_codes(), Each(0)) << outputs_of(moved);
  }
}

}  // namespace
}  // namespace cairn
