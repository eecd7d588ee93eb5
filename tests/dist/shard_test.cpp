// Sharded modules: real processes on this machine, each a shard_program.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "job.h"

namespace cairn {
namespace {

using cairn::testing::Job;
using cairn::testing::rest_of_line;
using ::testing::Each;
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
TEST(Sharding, MemoryOfARankFallsWithTheirNumber) {
  constexpr int kAll = 6 * (256 * 256 + 256) * 4 * 4;
  for (const int ranks : {2, 4}) {
    Job job(ranks, {SHARD_PROGRAM, "memory"});
    EXPECT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
    EXPECT_EQ(rest_of_line(job.output(0), "bytes "), std::to_string(kAll / ranks));
  }
}

TEST(Sharding, WhatCannotBeIsRefused) {
  Job job(2, {SHARD_PROGRAM, "errors"});
  EXPECT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  EXPECT_THAT(job.output(1), HasSubstr("all of it holds"));
}

}  // namespace
}  // namespace cairn
