// Sharded modules in jobs of real processes on this machine. Each process is a shard_program or a
// dist_program.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"

#include "job.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using cairn::testing::in_turn;
using cairn::testing::Job;
using cairn::testing::losses_of;
using cairn::testing::operator+;
using cairn::testing::part;
using cairn::testing::rest_of_line;
using cairn::testing::TempFolder;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using Words = std::vector<std::string>;

class Sharding : public ::testing::TestWithParam<int> {};

TEST_P(Sharding, EveryStrategyComputesWhatDataParallelDoes) {
  Job job(GetParam(), {SHARD_PROGRAM, "strategies", "uneven", "scaler"});
  EXPECT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
}

TEST_P(Sharding, ActivationCheckpointingChangesNoBit) {
  Job job(GetParam(), {SHARD_PROGRAM, "recomputing", "uneven_recomputing"});
  EXPECT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
}

// The work that computes the content of messages is enqueued on the device, and done late.
TEST_P(Sharding, OnADeviceTheyComputeTheSame) {
  Job job(GetParam(), {SHARD_PROGRAM, "device", "strategies", "uneven", "scaler"});
  const std::vector<int> codes = job.exit_codes();
  if (outputs_of(job).find("Cannot access accelerator device") != std::string::npos)
    GTEST_SKIP()
        << "autograd of this libtorch (2.14) adds gradients on devices alone that it knows";
  EXPECT_THAT(codes, Each(0)) << outputs_of(job);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Sharding, ::testing::Values(2, 3, 4));

// Parameters, gradients and optimizer state of one rank, in bytes: 6 layers of 256 x 256 with
// biases, float32, with Adam.
TEST(ShardedModules, MemoryOfARankFallsWithTheirNumber) {
  constexpr int kAll = 6 * (256 * 256 + 256) * 4 * 4;
  for (const int ranks : {2, 4}) {
    Job job(ranks, {SHARD_PROGRAM, "memory"});
    EXPECT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
    EXPECT_EQ(rest_of_line(job.output(0), "bytes "), std::to_string(kAll / ranks));
  }
}

// Rank 0 writes the file while it gathers the rows.
TEST(ShardedModules, AFullSaveTakesNoMemoryForTheWhole) {
  const TempFolder folder;
  Job job(2, {SHARD_PROGRAM, "folder=" + folder.path()});
  EXPECT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  EXPECT_GT(std::filesystem::file_size(folder / "1.pt"), 256U << 20);
}

// The gathered tensors are exact to the byte, and there is no round trip for each tensor.
TEST(ShardedModules, AFullSaveGathersManyTensorsAtATime) {
  const TempFolder folder;
  Job job(3, {SHARD_PROGRAM, "many=" + folder.path()});
  EXPECT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  EXPECT_TRUE(verify(folder / "many.pt").ok());
}

TEST(ShardedModules, AFullSaveTakesTheRowsOfOneOfSeveralReplicas) {
  const TempFolder folder;
  Job job(4, {SHARD_PROGRAM, "device", "replicated_many=" + folder.path()});
  EXPECT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  EXPECT_TRUE(verify(folder / "many.pt").ok());
}

TEST(ShardedModules, WhatWasWholeGoesBackToTheSystem) {
  Job job(4, {SHARD_PROGRAM, "resident"});
  EXPECT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
}

TEST(ShardedModules, WhatCannotBeIsRefused) {
  Job job(2, {SHARD_PROGRAM, "errors"});
  EXPECT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  EXPECT_THAT(job.output(1), HasSubstr("all of it holds"));
}

// --- A Trainer -----------------------------------------------------------------------------------

// The arguments of one process for several runs, one after the other.
Words runs(const std::vector<Words>& each) { return in_turn(each); }
Words with(const Words& one, const Words& more) { return one + more; }

// The network is float64. A batch of 4 is cut into microbatches of 2. Some of the 11 evaluated
// samples come twice.
const Words kRun = {"train", "norm=1", "clip=norm", "batch=4", "micro=2", "samples=32"};

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

void expect_same_losses(const std::string& one, const std::string& other) {
  const auto expected = losses_of(one);
  const auto found = losses_of(other);
  EXPECT_FALSE(expected.empty()) << one;
  ASSERT_EQ(expected.size(), found.size()) << other;
  for (const auto& [batch, loss] : expected)
    EXPECT_NEAR(found.at(batch), loss, 1e-9) << "batch " << batch;
}

TEST(ShardedTrainer, TrainsAsDataParallelDoes) {
  for (const int ranks : {2, 4}) {
    std::vector<Words> all = {
        kRun, with(kRun, {"shard=FULL_SHARD"}), with(kRun, {"shard=SHARD_GRAD_OP"}),
        with(kRun, {"shard=HYBRID_SHARD", "replicas=2"}), with(kRun, {"shard=NO_SHARD"})};
    // Ranks with different numbers of samples. One rank's batches have no tokens.
    const Words uneven = {"train", "uneven=1", "batch=3", "micro=2", "weightless=1"};
    all.push_back(uneven);
    all.push_back(with(uneven, {"shard=FULL_SHARD"}));
    all.push_back({"train"});
    all.push_back({"train", "shard=FULL_SHARD"});
    Job job(ranks, runs(all));
    ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
    for (const std::size_t number : {1U, 2U, 3U, 4U}) {
      SCOPED_TRACE(all[number].back());
      expect_same_losses(part(job.output(1), 0), part(job.output(1), number));
      EXPECT_EQ(rest_of_line(part(job.output(0), number), "accuracy"),
                rest_of_line(part(job.output(0), 0), "accuracy"));
    }
    expect_same_losses(part(job.output(0), 5), part(job.output(0), 6));
    // Only some ranks have a last batch of the evaluation.
    expect_same_losses(part(job.output(0), 7), part(job.output(0), 8));
    EXPECT_EQ(rest_of_line(part(job.output(0), 7), "accuracy"),
              rest_of_line(part(job.output(0), 8), "accuracy"));
  }
}

// The lines "metric NAME VALUE" with this beginning of a name.
std::map<std::string, double> metrics_of(const std::string& output, const std::string& begin) {
  std::map<std::string, double> metrics;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string what, name;
    double value = 0;
    if (words >> what >> name >> value && what == "metric" && name.starts_with(begin)) {
      metrics[name] = value;
    }
  }
  return metrics;
}

TEST(ShardedTrainer, NormsAreThoseOfTheWholeTensors) {
  Words monitored = with(kRun, {"monitors=1"});
  std::vector<Words> all = {monitored};
  for (const char* strategy : {"FULL_SHARD", "SHARD_GRAD_OP"})
    all.push_back(with(monitored, {std::string("shard=") + strategy}));
  all.push_back(with(monitored, {"shard=HYBRID_SHARD", "replicas=2"}));
  Job job(4, runs(all));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  const auto expected = metrics_of(part(job.output(0), 0), "l2_norm/");
  // The two layers and the batch norm have gradients, "unused" has none.
  EXPECT_THAT(expected, SizeIs(6 * 4 + 1));
  for (const std::size_t number : {1U, 2U, 3U}) {
    SCOPED_TRACE(all[number].back());
    const auto found = metrics_of(part(job.output(0), number), "l2_norm/");
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [name, norm] : expected)
      EXPECT_NEAR(found.at(name), norm, 1e-9) << name;
  }
  const auto memory = metrics_of(part(job.output(0), 0), "memory/current_resident_mem");
  EXPECT_LE(memory.at("memory/current_resident_mem_min"),
            memory.at("memory/current_resident_mem_avg"));
  EXPECT_LT(memory.at("memory/current_resident_mem_avg"),
            memory.at("memory/current_resident_mem_max"));
}

void expect_same_tensors(const Value& one, const Value& other, const std::string& path) {
  if (one.is_tensor()) {
    ASSERT_TRUE(other.is_tensor()) << path;
    ASSERT_EQ(one.as_tensor().shape, other.as_tensor().shape) << path;
    if (one.as_tensor().dtype != DType::kFloat64) return;
    const SharedBytes a = one.as_tensor().contiguous_bytes();
    const SharedBytes b = other.as_tensor().contiguous_bytes();
    const auto* const first = reinterpret_cast<const double*>(a.view.data());
    const auto* const second = reinterpret_cast<const double*>(b.view.data());
    for (std::size_t i = 0; i < a.view.size() / sizeof(double); ++i)
      ASSERT_NEAR(first[i], second[i], 1e-9) << path;
  } else if (one.is_dict()) {
    ASSERT_EQ(one.as_dict().size(), other.as_dict().size()) << path;
    for (const auto& [key, value] : one.as_dict()) {
      const Value* const found = other.as_dict().find(key);
      ASSERT_NE(found, nullptr) << path;
      expect_same_tensors(value, *found, path + "/" + (key.is_str() ? key.as_str() : "?"));
    }
  }
}

// The run is continued between epochs: 32 samples on 2 ranks are 4 batches.
TEST(ShardedTrainer, OneFileIsLoadedByAnyNumberOfRanks) {
  const TempFolder sharded_folder;
  const TempFolder plain_folder;
  const auto saved = [](const Words& run, const std::string& folder, const Words& more = {}) {
    return with(with(run, {"folder=" + folder, "interval=1ep"}), more);
  };
  const Words sharded = with(kRun, {"shard=FULL_SHARD"});
  const std::string half = "duration=1ep";
  Job job(2, runs({sharded, saved(kRun, plain_folder.path(), {half}),
                   saved(sharded, sharded_folder.path(), {half, "async=1"}),
                   saved(sharded, sharded_folder.path()),   // Continues from its own checkpoint.
                   saved(sharded, plain_folder.path())}));  // Goes on from data parallel's
                                                            // checkpoint.
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  for (const std::size_t rank : {0U, 1U}) {
    const std::string& output = job.output(rank);
    const std::string unbroken = rest_of_line(part(output, 0), "weights ");
    ASSERT_NE(unbroken, "");
    EXPECT_EQ(rest_of_line(part(output, 3), "weights "), unbroken) << output;
    EXPECT_THAT(part(output, 4), HasSubstr("begins at batch 4"));
    auto losses = losses_of(part(output, 0));
    for (const auto& [batch, loss] : losses_of(part(output, 4)))
      EXPECT_NEAR(losses.at(batch), loss, 1e-9);
  }
  // At the end of the first epoch both runs wrote the same.
  const std::string name = "/ep1-ba4-rank0.pt";
  const Value of_sharded = load(sharded_folder.path() + name);
  const Value of_plain = load(plain_folder.path() + name);
  for (const char* entry : {"model", "optimizers"}) {
    expect_same_tensors(of_plain.at("state").at(entry), of_sharded.at("state").at(entry), entry);
  }
  // One process, and four processes, continue from that file.
  for (const int ranks : {1, 4}) {
    const TempFolder folder;
    std::filesystem::copy_file(sharded_folder.path() + name, folder.path() + name);
    std::filesystem::create_symlink(name.substr(1), folder.path() + "/latest-rank0.pt");
    Job again(ranks, runs({saved(sharded, folder.path())}));
    EXPECT_THAT(again.exit_codes(), Each(0)) << outputs_of(again);
    EXPECT_THAT(again.output(0), HasSubstr("begins at batch 4"));
  }
}

// The runs are continued between epochs, as above. 1 rank, and 4 ranks (one of which has no rows of
// some tensors), continue from a checkpoint of 2 ranks. Then 2 ranks continue from the checkpoints
// of those runs.
TEST(ShardedTrainer, AFolderOfAllRanksIsLoadedByAnyNumberOfRanks) {
  const TempFolder folder;
  const Words sharded = kRun + Words{"shard=FULL_SHARD"};
  const Words saves = {"state=sharded", "folder=" + folder.path(), "interval=1ep"};
  Job job(2, runs({sharded, sharded + saves + Words{"duration=1ep", "async=1"}, sharded + saves}));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  for (const std::size_t rank : {0U, 1U}) {
    const std::string& output = job.output(rank);
    EXPECT_THAT(part(output, 2), HasSubstr("begins at batch 4"));
    EXPECT_EQ(rest_of_line(part(output, 2), "weights "), rest_of_line(part(output, 0), "weights "))
        << output;
  }
  const std::string first = folder.path() + "/ep1-ba4";
  EXPECT_THAT(files_in(first),
              ElementsAre(".cairn_manifest.json", ".metadata", "__0_0.distcp", "__1_0.distcp"));
  EXPECT_EQ(std::filesystem::read_symlink(folder.path() + "/latest-rank0.pt"), "ep2-ba8");
  const Value whole = load(first);
  EXPECT_EQ(whole.at("rng").as_items().size(), 2U);
  const Value& groups = whole.at("state").at("optimizers").at("AdamW").at("param_groups");
  EXPECT_EQ(groups.as_items().at(0).at("decoupled_weight_decay"), Value(true));
  auto losses = losses_of(part(job.output(0), 0));
  for (const int ranks : {1, 4}) {
    const TempFolder other;
    std::filesystem::copy(first, other.path() + "/ep1-ba4");
    std::filesystem::create_symlink("ep1-ba4", other.path() + "/latest-rank0.pt");
    const Words goes_on = {"state=sharded", "folder=" + other.path(), "interval=1ep"};
    Job again(ranks, runs({sharded + goes_on + Words{"duration=2ep"}}));
    ASSERT_THAT(again.exit_codes(), Each(0)) << outputs_of(again);
    EXPECT_THAT(again.output(0), HasSubstr("begins at batch 4"));
    Job back(2, runs({sharded + goes_on + Words{"duration=3ep"}}));
    ASSERT_THAT(back.exit_codes(), Each(0)) << outputs_of(back);
    EXPECT_THAT(back.output(1), ::testing::Not(HasSubstr("begins at batch 4")));
  }
}

// The optimizer's state is an empty dict, which a folder of all ranks does not keep.
TEST(ShardedTrainer, AnOptimizerWithoutStateGoesOnFromAFolder) {
  const TempFolder folder;
  const Words sharded = kRun + Words{"shard=FULL_SHARD", "sgd=1"};
  const Words saves = {"state=sharded", "folder=" + folder.path(), "interval=1ep"};
  Job job(2, runs({sharded, sharded + saves + Words{"duration=1ep"}, sharded + saves}));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  EXPECT_THAT(part(job.output(0), 2), HasSubstr("begins at batch 4"));
  EXPECT_EQ(rest_of_line(part(job.output(0), 2), "weights "),
            rest_of_line(part(job.output(0), 0), "weights "));
}

// With 65536 hidden units, each of 4 ranks has a quarter of 12 MiB of weights and optimizer state.
// Besides its rows, a rank reads `.metadata`, the objects, and the bytes around tensors, some KiB
// of each. Rank 0 reads this overhead twice, because it also looks for the checkpoint.
TEST(ShardedTrainer, ARankReadsItsRowsAndNoOthers) {
  const TempFolder folder;
  const Words run = {"train",
                     "shard=FULL_SHARD",
                     "state=sharded",
                     "batch=4",
                     "interval=1ep",
                     "samples=32",
                     "width=65536",
                     "far=1",
                     "folder=" + folder.path()};
  Job job(4, runs({run + Words{"duration=1ep"}, run + Words{"duration=2ep"}}));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  std::int64_t all = 0;
  for (const std::string& name : files_in(folder.path() + "/ep1-ba2"))
    all +=
        static_cast<std::int64_t>(std::filesystem::file_size(folder.path() + "/ep1-ba2/" + name));
  ASSERT_GT(all, 12 << 20);
  constexpr std::int64_t kAround = 1 << 20;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const std::string output = part(job.output(rank), 1);
    EXPECT_THAT(output, HasSubstr("begins at batch 2"));
    const std::int64_t read = std::stoll(rest_of_line(output, "read "));
    // A rank may have one of 3 rows of a tensor, which is a third.
    EXPECT_LT(read, all * 2 / 5 + (rank == 0 ? kAround : 0)) << "of " << all;
  }
}

TEST(ShardedTrainer, PredictsAsDataParallelDoesAlsoWhereARankHasMoreBatches) {
  const Words run = {"train", "predict=1", "duration=1ba"};
  Job job(2, runs({run, run + Words{"shard=FULL_SHARD"}}));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  for (const std::size_t rank : {0U, 1U}) {
    const std::string expected = rest_of_line(part(job.output(rank), 0), "predicted ");
    EXPECT_THAT(expected, HasSubstr(rank == 0 ? "2 batches" : "4 batches"));
    EXPECT_EQ(rest_of_line(part(job.output(rank), 1), "predicted "), expected);
  }
}

// The stop comes inside an epoch, where the interval makes no save.
TEST(ShardedTrainer, AStopOfOneRankSavesAFolderOfAllRanks) {
  const TempFolder folder;
  const Words sharded = kRun + Words{"shard=FULL_SHARD"};
  const Words saves = {"state=sharded", "folder=" + folder.path(), "interval=1ep"};
  Job job(2, runs({sharded, sharded + saves + Words{"rank=1", "at_batch=2", "how=term"},
                   sharded + saves}));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/ep0-ba2/.metadata"));
  for (const auto& rank : job.ranks) {
    EXPECT_THAT(part(rank->output(), 2), HasSubstr("begins at batch 2"));
    EXPECT_EQ(rest_of_line(part(rank->output(), 2), "weights "),
              rest_of_line(part(rank->output(), 0), "weights "));
  }
}

// An example is a folder that lost its .metadata: its tensors could still be rescued.
TEST(ShardedTrainer, AFolderThatIsNoCheckpointIsPutAside) {
  const TempFolder folder;
  std::filesystem::create_directories(folder.path() + "/ep1-ba4");
  cairn::testing::write_file(folder.path() + "/ep1-ba4/__0_0.distcp", "somebody's");
  Job job(2, runs({kRun + Words{"shard=FULL_SHARD", "state=sharded", "interval=1ep",
                                "folder=" + folder.path()}}));
  EXPECT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  EXPECT_THAT(job.output(0), AllOf(HasSubstr("renamed"), HasSubstr("no checkpoint")));
  EXPECT_THAT(files_in(folder.path() + "/ep1-ba4.damaged"), ElementsAre("__0_0.distcp"));
  EXPECT_TRUE(verify(folder.path() + "/ep1-ba4").ok());
}

TEST(ShardedTrainer, ARunThatIsFoundFinishedRemovesOlderFolders) {
  const TempFolder folder;
  const Words sharded =
      kRun + Words{"shard=FULL_SHARD", "state=sharded", "interval=2ba", "folder=" + folder.path()};
  Job job(2, runs({sharded, sharded + Words{"keep=2"}}));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  EXPECT_THAT(part(job.output(0), 1), HasSubstr("of which 2 are kept"));
  EXPECT_THAT(files_in(folder.path()), SizeIs(3)) << outputs_of(job);  // Two, and the link.
  EXPECT_TRUE(verify(folder.path() + "/latest-rank0.pt").ok());
}

TEST(ShardedTrainer, OlderFoldersAreRemoved) {
  const TempFolder folder;
  const Words sharded = kRun + Words{"shard=FULL_SHARD", "state=sharded", "interval=2ba"};
  Job job(2, runs({sharded + Words{"folder=" + folder.path(), "keep=2"}}));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  EXPECT_THAT(files_in(folder.path()), SizeIs(3)) << outputs_of(job);  // Two, and the link.
  EXPECT_TRUE(verify(folder.path() + "/latest-rank0.pt").ok());
}

TEST(ShardedTrainer, SavesThatAProgramAsksForLeaveNothingWhereTheRanksMeet) {
  const TempFolder folder;
  Job job(2, runs({kRun + Words{"shard=FULL_SHARD", "state=sharded", "duration=1ba",
                                "saves_again=4", "folder=" + folder.path()}}));
  EXPECT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
}

TEST(ShardedTrainer, AKilledRunGoesOnBitForBit) {
  const TempFolder folder;
  const Words run = {"train",      "shard=FULL_SHARD", "clip=norm",       "batch=4",
                     "samples=32", "dropout=30",       "timeout_ms=60000"};
  const Words saved = with(run, {"folder=" + folder.path()});
  Job killed(3, runs({with(saved, {"at_batch=2", "how=dead", "rank=1"})}));
  EXPECT_THAT(killed.exit_codes(), ElementsAre(3, -1, 3));
  EXPECT_THAT(killed.output(2), HasSubstr("rank 1 did not come"));
  Job again(3, runs({saved, run}));
  ASSERT_THAT(again.exit_codes(), Each(0)) << outputs_of(again);
  for (const auto& rank : again.ranks) {
    EXPECT_THAT(rank->output(), HasSubstr("begins at batch 1"));
    EXPECT_EQ(rest_of_line(part(rank->output(), 0), "weights "),
              rest_of_line(part(rank->output(), 1), "weights "));
  }
}

TEST(ShardedTrainer, WhatLooksAtWholeWeightsIsRefused) {
  for (const char* wrong : {"ema=1", "clip=adaptive"}) {
    Job job(2, runs({{"train", "shard=FULL_SHARD", wrong}}));
    EXPECT_THAT(job.exit_codes(), Each(2));
    EXPECT_THAT(job.output(0), HasSubstr("whole weights"));
  }
}

}  // namespace
}  // namespace cairn
