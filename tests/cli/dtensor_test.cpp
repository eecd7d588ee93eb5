// The commands show and convert files with DTensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/open/source.h"
#include "run_tool.h"
#include "testing/file_bytes.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"

namespace cairn::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kData;
using testing::TempFolder;

const std::string kFiles = kData + "/torch-2.14/dtensor/";
const std::string kRank0 = kFiles + "fsdp2-rank0.pt";
const std::string kRank1 = kFiles + "fsdp2-rank1.pt";

TEST(DTensorCommandsTest, InspectSaysShardShapeAndPlacement) {
  const Answer tree = run({"inspect", "--depth", "2", kRank1});
  EXPECT_EQ(tree.code, kDone) << tree.err;
  EXPECT_THAT(tree.out,
              AllOf(HasSubstr("DTensor float32 [2, 3] of [5, 3], (Shard(0)) at (1) of a mesh (2)"),
                    HasSubstr("OrderedDict of 4, 4 tensors")));
  const Answer table = run({"inspect", "--tensors", "model/0.weight", kRank1});
  EXPECT_THAT(table.out, HasSubstr("[2, 3] of [5, 3], (Shard(0)) at (1) of a mesh (2)   24 B"));
  const Answer object = run({"--json", "inspect", "--tensors", "model/0.weight", kRank1});
  const auto row = nlohmann::json::parse(object.out)["tensors"][0];
  EXPECT_EQ(row["shape"], nlohmann::json({2, 3}));
  EXPECT_EQ(row["distributed"]["shape"], nlohmann::json({5, 3}));
  EXPECT_EQ(row["distributed"]["placements"], nlohmann::json({"Shard(0)"}));
  EXPECT_EQ(row["distributed"]["mesh"], nlohmann::json({2}));
  EXPECT_EQ(row["distributed"]["coordinate"], nlohmann::json({1}));
}

TEST(DTensorCommandsTest, DumpDescribesShardMeshAndPlacement) {
  const Answer answer = run({"dump", kFiles + "strided-rank3.pt"});
  ASSERT_EQ(answer.code, kDone) << answer.err;
  const auto entry = nlohmann::json::parse(answer.out)["items"][0];
  EXPECT_EQ(entry[0]["value"], "0.weight");
  EXPECT_EQ(entry[1]["type"], "dtensor");
  EXPECT_EQ(entry[1]["class"], "torch.distributed.tensor.DTensor");
  EXPECT_EQ(entry[1]["shape"], nlohmann::json({8, 4}));
  EXPECT_EQ(entry[1]["placements"],
            nlohmann::json({"_StridedShard(0, split_factor=2)", "Shard(0)"}));
  EXPECT_EQ(entry[1]["mesh"]["shape"], nlohmann::json({2, 2}));
  EXPECT_EQ(entry[1]["mesh"]["names"], nlohmann::json({"dp", "tp"}));
  EXPECT_EQ(entry[1]["mesh"]["ranks"], nlohmann::json({0, 1, 2, 3}));
  EXPECT_EQ(entry[1]["mesh"]["coordinate"], nlohmann::json({1, 1}));
  EXPECT_EQ(entry[1]["local"]["type"], "tensor");
  EXPECT_EQ(entry[1]["local"]["shape"], nlohmann::json({2, 4}));
}

TEST(DTensorCommandsTest, DiffComparesShardsAndPlacements) {
  const Answer same = run({"diff", kRank0, kRank0});
  EXPECT_EQ(same.code, kDone) << same.err;
  const Answer other = run({"diff", kFiles + "hsdp-rank0.pt", kFiles + "hsdp-rank2.pt"});
  EXPECT_EQ(other.code, kNegativeAnswer);
  EXPECT_THAT(other.out, AllOf(HasSubstr("rows (placement)"), HasSubstr("at (0, 0) of a mesh"),
                               HasSubstr("at (1, 0) of a mesh")));
  EXPECT_EQ(run({"diff", "--weights-only", kRank0, kRank1}).code, kNegativeAnswer);
}

TEST(DTensorCommandsTest, ExtractGivesTheShardAndSaysThatItIsOne) {
  const TempFolder temp;
  const Answer answer = run({"extract", kRank1, "model/0.weight", "-o", temp / "w.npy"});
  EXPECT_EQ(answer.code, kDone) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("only the shards that this file holds of distributed tensors: "
                                    "[2, 3] of [5, 3], (Shard(0)) at (1) of a mesh (2)"));
  EXPECT_EQ(run({"extract", kRank1, "model", "-o", temp / "model.pt"}).code, kDone);
  const Value model = open_source(temp / "model.pt")->read();
  EXPECT_EQ(model.at("0.weight").as_tensor().shape, Dims({2, 3}));
  const Answer text = run({"extract", kRank1, "model/1.bias"});
  EXPECT_EQ(nlohmann::json::parse(text.out)["shape"], nlohmann::json({0}));
}

TEST(DTensorCommandsTest, ConvertTakesTheFilesOfAllRanks) {
  const TempFolder temp;
  const Answer answer = run({"convert", kRank0, kRank1, temp / "out.pt"});
  EXPECT_EQ(answer.code, kDone) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("full tensors gathered from distributed ones: 12\n"));
  EXPECT_EQ(run({"diff", temp / "out.pt", kFiles + "fsdp2-full.pt"}).code, kDone);
  const Answer object =
      run({"--json", "convert", "--weights-only", kRank0, kRank1, temp / "w.safetensors"});
  EXPECT_EQ(nlohmann::json::parse(object.out)["gathered"], 4);
}

TEST(DTensorCommandsTest, ConvertOfOneFileOfSeveralIsAnErrorAndWritesNothing) {
  const TempFolder temp;
  const Answer answer = run({"convert", kRank0, temp / "out.safetensors"});
  EXPECT_EQ(answer.code, kIncompatible);
  EXPECT_THAT(answer.err, AllOf(HasSubstr("model/0.weight: torch.distributed.tensor.DTensor"),
                                HasSubstr("Give the files of all ranks")));
  EXPECT_EQ(run({"verify", temp / "out.safetensors"}).code, kNotFound);
  const Answer dropped = run({"convert", "--drop-objects", kRank0, temp / "out.safetensors"});
  EXPECT_EQ(dropped.code, kDone) << dropped.err;
  EXPECT_THAT(dropped.out, HasSubstr("objects left out: model/0.weight "));
}

}  // namespace
}  // namespace cairn::cli
