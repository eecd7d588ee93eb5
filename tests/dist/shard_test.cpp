// Sharded modules: real processes on this machine, each a shard_program or a dist_program.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"

#include "job.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using cairn::testing::Job;
using cairn::testing::losses_of;
using cairn::testing::rest_of_line;
using cairn::testing::TempFolder;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Words = std::vector<std::string>;

std::string outputs_of(const Job& job) {
  std::string all;
  for (const auto& rank : job.ranks)
    all += rank->output();
  return all;
}

class Sharding : public ::testing::TestWithParam<int> {};

TEST_P(Sharding, EveryStrategyComputesWhatDataParallelDoes) {
  Job job(GetParam(), {SHARD_PROGRAM, "strategies", "uneven"});
  EXPECT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Sharding, ::testing::Values(2, 3, 4));

// Parameters, gradients and optimizer state of one rank, in bytes: of 6 layers of 256 x 256 with
// biases, float32, with Adam.
TEST(ShardedModules, MemoryOfARankFallsWithTheirNumber) {
  constexpr int kAll = 6 * (256 * 256 + 256) * 4 * 4;
  for (const int ranks : {2, 4}) {
    Job job(ranks, {SHARD_PROGRAM, "memory"});
    EXPECT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
    EXPECT_EQ(rest_of_line(job.output(0), "bytes "), std::to_string(kAll / ranks));
  }
}

TEST(ShardedModules, WhatCannotBeIsRefused) {
  Job job(2, {SHARD_PROGRAM, "errors"});
  EXPECT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  EXPECT_THAT(job.output(1), HasSubstr("all of it holds"));
}

// --- A Trainer -----------------------------------------------------------------------------------

// The arguments of one process for several runs, one after the other.
Words runs(const std::vector<Words>& each) {
  Words all = {DIST_PROGRAM};
  for (const Words& one : each) {
    if (all.size() > 1) all.emplace_back("--");
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

Words with(Words one, const Words& more) {
  one.insert(one.end(), more.begin(), more.end());
  return one;
}

std::string output_of_run(const std::string& output, std::size_t number) {
  const auto begin = output.find("case " + std::to_string(number) + "\n");
  if (begin == std::string::npos) return "";
  return output.substr(begin, output.find("case " + std::to_string(number + 1) + "\n") - begin);
}

// The network is float64; a batch of 4 in microbatches of 2, of 11 evaluated samples some twice.
const Words kRun = {"train", "norm=1", "clip=norm", "batch=4", "micro=2", "samples=32"};

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
    std::vector<Words> all = {kRun, with(kRun, {"shard=FULL_SHARD"}),
                              with(kRun, {"shard=SHARD_GRAD_OP"}),
                              with(kRun, {"shard=HYBRID_SHARD", "replicas=2"}),
                              with(kRun, {"shard=NO_SHARD"})};
    // Of ranks with more samples than others, of which one has no tokens.
    const Words uneven = {"train", "uneven=1", "batch=3", "micro=2", "weightless=1"};
    all.push_back(uneven);
    all.push_back(with(uneven, {"shard=FULL_SHARD"}));
    all.push_back({"train"});
    all.push_back({"train", "shard=FULL_SHARD"});
    Job job(ranks, runs(all));
    ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
    for (const std::size_t number : {1U, 2U, 3U, 4U}) {
      SCOPED_TRACE(all[number].back());
      expect_same_losses(output_of_run(job.output(1), 0), output_of_run(job.output(1), number));
      EXPECT_EQ(rest_of_line(output_of_run(job.output(0), number), "accuracy"),
                rest_of_line(output_of_run(job.output(0), 0), "accuracy"));
    }
    expect_same_losses(output_of_run(job.output(0), 5), output_of_run(job.output(0), 6));
    // An evaluation's last batch is only some ranks'.
    expect_same_losses(output_of_run(job.output(0), 7), output_of_run(job.output(0), 8));
    EXPECT_EQ(rest_of_line(output_of_run(job.output(0), 7), "accuracy"),
              rest_of_line(output_of_run(job.output(0), 8), "accuracy"));
  }
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

// Between epochs: 32 samples on 2 ranks are 4 batches.
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
                   saved(sharded, sharded_folder.path()),   // goes on from its own
                   saved(sharded, plain_folder.path())}));  // and from data parallel's
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  for (const std::size_t rank : {0U, 1U}) {
    const std::string& output = job.output(rank);
    const std::string unbroken = rest_of_line(output_of_run(output, 0), "weights ");
    ASSERT_NE(unbroken, "");
    EXPECT_EQ(rest_of_line(output_of_run(output, 3), "weights "), unbroken) << output;
    EXPECT_THAT(output_of_run(output, 4), HasSubstr("begins at batch 4"));
    auto losses = losses_of(output_of_run(output, 0));
    for (const auto& [batch, loss] : losses_of(output_of_run(output, 4)))
      EXPECT_NEAR(losses.at(batch), loss, 1e-9);
  }
  // What both wrote at the end of the first epoch is one thing.
  const std::string name = "/ep1-ba4-rank0.pt";
  const Value of_sharded = load(sharded_folder.path() + name);
  const Value of_plain = load(plain_folder.path() + name);
  for (const char* entry : {"model", "optimizers"}) {
    expect_same_tensors(of_plain.at("state").at(entry), of_sharded.at("state").at(entry), entry);
  }
  // One process, and four, go on from it.
  for (const int ranks : {1, 4}) {
    const TempFolder folder;
    std::filesystem::copy_file(sharded_folder.path() + name, folder.path() + name);
    std::filesystem::create_symlink(name.substr(1), folder.path() + "/latest-rank0.pt");
    Job again(ranks, runs({saved(sharded, folder.path())}));
    EXPECT_THAT(again.exit_codes(), Each(0)) << outputs_of(again);
    EXPECT_THAT(again.output(0), HasSubstr("begins at batch 4"));
  }
}

TEST(ShardedTrainer, AKilledRunGoesOnBitForBit) {
  const TempFolder folder;
  const Words run = {"train",      "shard=FULL_SHARD", "clip=norm",         "batch=4",
                     "samples=32", "dropout=30",       "timeout_ms=20000"};
  const Words saved = with(run, {"folder=" + folder.path()});
  Job killed(3, runs({with(saved, {"at_batch=2", "how=dead", "rank=1"})}));
  EXPECT_THAT(killed.exit_codes(), ElementsAre(3, -1, 3));
  EXPECT_THAT(killed.output(2), HasSubstr("rank 1 did not come"));
  Job again(3, runs({saved, run}));
  ASSERT_THAT(again.exit_codes(), Each(0)) << outputs_of(again);
  for (const auto& rank : again.ranks) {
    EXPECT_THAT(rank->output(), HasSubstr("begins at batch 1"));
    EXPECT_EQ(rest_of_line(output_of_run(rank->output(), 0), "weights "),
              rest_of_line(output_of_run(rank->output(), 1), "weights "));
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
