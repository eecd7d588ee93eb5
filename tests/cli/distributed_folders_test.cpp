// Each form of safetensors that torch.distributed.checkpoint writes is a checkpoint for every
// command that reads one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/checkpoint/checkpoint.h"

#include "testing/sharded_folder.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"
#include "tests/cli/run_tool.h"

namespace cairn::cli {
namespace {

using ::testing::HasSubstr;

class DistributedFolderTest : public ::testing::TestWithParam<const char*> {
 protected:
  const std::string path_ = testing::kData + "/torch-2.14/" + GetParam();
  testing::TempFolder temp_;
};

TEST_P(DistributedFolderTest, IsReadByEveryCommand) {
  for (const char* command : {"inspect", "verify", "dump"}) {
    const Answer answer = run({command, path_});
    EXPECT_EQ(answer.code, 0) << command << ": " << answer.out << answer.err;
    EXPECT_EQ(answer.err, "") << command;
  }
  for (const std::string& out : {temp_ / "out.pt", temp_ / "out"}) {
    const Answer converted = run({"convert", path_, out});
    ASSERT_EQ(converted.code, 0) << converted.err;
    EXPECT_EQ(load(out), load(path_));
    EXPECT_EQ(run({"diff", path_, out}).code, 0);
  }
}

TEST_P(DistributedFolderTest, IsListedAmongItsNeighbours) {
  const std::size_t slash = path_.rfind('/');
  const Answer answer = run({"ls", path_.substr(0, slash)});
  EXPECT_THAT(answer.out, HasSubstr(path_.substr(slash + 1) + "/"));
}

// A checkpoint that three ranks of cairn wrote together.
TEST(ShardedFolderTest, IsReadByEveryCommand) {
  const testing::TempFolder temp;
  const std::string path = temp / "ep1-ba3";
  std::vector<sharded::RankState> ranks;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const auto [begin, rows] = testing::slice_of(7, rank, 3);
    ranks.emplace_back(
        sharded::RankPlace{.rank = rank, .world_size = 3},
        Dict{{"state", Dict{{"model", Dict{{"w", testing::part_of_numbers(
                                                     {7, 2}, {{begin, 0}, {rows, 2}}, 0)}}},
                            {"run_name", "three"}}}});
    ranks.back().add_own("rng", Dict{{"torch", static_cast<int>(rank)}});
  }
  testing::write_ranks(*local_store(), path, ranks);
  for (const char* command : {"inspect", "verify", "dump"}) {
    const Answer answer = run({command, path});
    EXPECT_EQ(answer.code, 0) << command << ": " << answer.out << answer.err;
    EXPECT_EQ(answer.err, "") << command;
  }
  EXPECT_THAT(run({"inspect", path}).out, HasSubstr("data files  3"));
  EXPECT_THAT(run({"verify", "--full", path}).out, HasSubstr("ok"));
  EXPECT_THAT(run({"ls", temp.path()}).out, HasSubstr("ep1-ba3/"));
  ASSERT_EQ(run({"convert", path, temp / "one.pt"}).code, 0);
  EXPECT_EQ(run({"diff", path, temp / "one.pt"}).code, 0);
}

INSTANTIATE_TEST_SUITE_P(All, DistributedFolderTest,
                         ::testing::Values("dcp.safetensors", "hf-plain.safetensors",
                                           "hf-two-files.safetensors",
                                           "hf-consolidated.safetensors",
                                           "hf-consolidated.safetensors/sharded",
                                           "dcp-as-safetensors", "dcp-zstd-safetensors"));

}  // namespace
}  // namespace cairn::cli
