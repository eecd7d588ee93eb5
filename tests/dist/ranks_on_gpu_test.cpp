// Ranks that train on GPUs, with NCCL and with Gloo. One GPU is enough: each rank claims to be on
// its own machine, so NCCL goes over loopback. Skipped without a GPU.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <chrono>
#include <string>

#include "dist/backend.h"
#include "job.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using cairn::testing::Command;
using cairn::testing::in_turn;
using cairn::testing::Job;
using cairn::testing::kDifficult;
using cairn::testing::operator+;
using cairn::testing::part;
using cairn::testing::program;
using cairn::testing::rest_of_line;
using cairn::testing::TempFolder;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RanksOnGpu : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device here";
    if (backend() == "nccl" &&
        dist::transport_of(at::Device(at::kCUDA, 0)) != dist::Transport::kNccl) {
      GTEST_SKIP() << "this cairn was built without NCCL";
    }
  }
  static std::string backend() { return GetParam(); }
  static Job two_ranks(const Command& command) {
    return {std::vector<int>{0, 1},
            Command{"CAIRN_CUDA_BACKEND=" + backend(), "NCCL_SOCKET_IFNAME=lo", "/bin/sh", "-c",
                    "NCCL_HOSTID=rank$RANK exec \"$0\" \"$@\""} +
                command};
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, RanksOnGpu, ::testing::Values("nccl", "gloo"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(RanksOnGpu, TensorsGoFromAllToAll) {
  Job job = two_ranks(program({"collectives", "device=cuda"}));
  EXPECT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
}

TEST_P(RanksOnGpu, EveryStrategyOfShardingComputesWhatOneModelDoes) {
  Job job = two_ranks({SHARD_PROGRAM, "cuda", "strategies", "uneven", "scaler"});
  EXPECT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
}

// NCCL itself waits forever for a rank that is gone.
TEST_P(RanksOnGpu, WhoIsGoneIsNamedSoon) {
  Job job = two_ranks(program({"miss", "device=cuda", "rank=1", "how=dead"}));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(job.exit_codes(), ElementsAre(3, -1)) << outputs_of(job);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  EXPECT_THAT(job.output(0), HasSubstr("rank 1 did not come"));
}

TEST_P(RanksOnGpu, AKilledRunGoesOnBitForBit) {
  const Command digits = {"train", "data=digits", "net=digits", "batch=64", "duration=12ba"};
  const std::vector<Command> kinds = {
      kDifficult,
      digits,
      digits + Command{"precision=amp_bf16"},
      kDifficult + Command{"shard=FULL_SHARD", "state=sharded"},
  };
  for (const Command& kind : kinds) {
    SCOPED_TRACE(::testing::PrintToString(kind));
    const TempFolder folder;
    const Command run = kind + Command{"device=cuda"};
    const Command saved = run + Command{"folder=" + folder.path()};
    Job killed = two_ranks(program(saved + Command{"rank=1", "at_batch=9", "how=dead"}));
    EXPECT_THAT(killed.exit_codes(), ElementsAre(3, -1)) << outputs_of(killed);
    Job job = two_ranks(in_turn({run, saved}));
    ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
    for (const std::size_t rank : {0, 1}) {
      EXPECT_THAT(part(job.output(rank), 1), HasSubstr("begins at batch 8"));
      EXPECT_EQ(rest_of_line(part(job.output(rank), 1), "weights "),
                rest_of_line(part(job.output(rank), 0), "weights "));
      EXPECT_NE(rest_of_line(part(job.output(rank), 0), "weights "), "");
    }
  }
}

}  // namespace
}  // namespace cairn
