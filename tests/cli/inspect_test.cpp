#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cairn/checkpoint/checkpoint.h"

#include "run_tool.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"

namespace cairn::cli {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kComposer;
using testing::kData;
using ::testing::Not;

json inspected(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"inspect", "--json"});
  const Answer answer = run(arguments);
  EXPECT_EQ(answer.code, kDone) << answer.err;
  return json::parse(answer.out);
}

json component(const json& object, const std::string& path) {
  for (const json& row : object["components"]) {
    if (row["path"] == path) return row;
  }
  return nullptr;
}

TEST(InspectTest, TellsComposersCheckpointWriterPositionAndParts) {
  const Answer answer = run({"inspect", kComposer});
  EXPECT_EQ(answer.code, kDone);
  EXPECT_EQ(answer.err, "");
  EXPECT_THAT(answer.out,
              AllOf(HasSubstr("Composer 0.33.0.dev0, torch 2.6.0+debian"),
                    HasSubstr("run golden-adamw_cosine"),
                    HasSubstr("epoch 1, batch 8 (3 in the epoch), sample 64, token 0"),
                    HasSubstr("state/optimizers"), HasSubstr("OrderedDict of 9, 9 tensors")));

  const json object = inspected({kComposer});
  EXPECT_EQ(object["format"], "torch_zip");
  EXPECT_EQ(object["kind"], "full");
  EXPECT_EQ(object["position"]["batch"], 8);
  EXPECT_EQ(object["position"]["sample_in_epoch"], 24);
  EXPECT_DOUBLE_EQ(object["position"]["seconds"], 0.027902);
  const json model = component(object, "state/model");
  EXPECT_EQ(model["tensors"], 9);
  EXPECT_EQ(model["parameters"], 16 * 8 + 16 + 4 * 16 + 1 + 4 * 16 + 4);
  EXPECT_EQ(model["bytes"], 4 * (model["parameters"].get<int>() - 1) + 8);
  EXPECT_EQ(component(object, "state/optimizers")["tensors"], 18);
  EXPECT_EQ(component(object, "rng")["bytes"], 5056);
  EXPECT_EQ(object["tensors"], nullptr);
}

TEST(InspectTest, KnowsWhichTorchWroteAFile) {
  const auto version = [](const std::string& folder) {
    return inspected({kData + "/" + folder + "/views.pt"})["notes"]["torch version"];
  };
  EXPECT_EQ(version("torch-1.13"), "older than 2.1");
  EXPECT_EQ(version("torch-2.6"), "2.1 to 2.6");
  EXPECT_EQ(version("torch-2.14"), "2.7 or newer");
  EXPECT_EQ(inspected({kData + "/torch-2.6/protocol4.pt"})["notes"]["pickle protocol"], "4");
}

TEST(InspectTest, FoldsLongListsAndOpensDeepBranchesWhenAsked) {
  const std::string many = kData + "/torch-2.6/many.pt";
  const Answer folded = run({"inspect", many});
  EXPECT_THAT(folded.out,
              AllOf(HasSubstr("... 288 more, 288 tensors"), Not(HasSubstr("layer.200.weight"))));
  EXPECT_THAT(run({"inspect", "--all", many}).out, HasSubstr("layer.200.weight"));
  EXPECT_THAT(run({"inspect", kComposer}).out, Not(HasSubstr("module.3.bias")));
  EXPECT_THAT(run({"inspect", "--depth", "3", kComposer}).out,
              HasSubstr("module.3.bias                 float32 [4]  16 B"));
  EXPECT_THAT(run({"inspect", "--depth", "0", kComposer}).out, Not(HasSubstr("OrderedDict")));
}

TEST(InspectTest, ListsTheTensorsOfAPatternOrABranch) {
  const Answer text = run({"inspect", "--bytes", "--tensors", "state/model/*.weight", kComposer});
  EXPECT_THAT(text.out, AllOf(HasSubstr("state/model/module.0.weight  float32  [16, 8]    512"),
                              Not(HasSubstr("bias")), Not(HasSubstr("optimizers"))));
  const json branch = inspected({"--tensors", "state/model", kComposer})["tensors"];
  ASSERT_EQ(branch.size(), 9);
  EXPECT_EQ(branch[6]["path"], "state/model/module.1.num_batches_tracked");
  EXPECT_EQ(branch[6]["dtype"], "int64");
  EXPECT_EQ(branch[6]["shape"], json::array());
  EXPECT_EQ(branch[6]["bytes"], 8);
  EXPECT_FALSE(branch[6].contains("stats"));
  EXPECT_EQ(inspected({"--tensors", "state/model", "--tensors", "state/model/*.weight",
                       kComposer})["tensors"],
            branch);
  const Answer none = run({"inspect", "--tensors", "state/modell", kComposer});
  EXPECT_EQ(none.code, kNotFound);
  EXPECT_THAT(none.err, HasSubstr("state/modell"));
}

TEST(InspectTest, StatsOfEveryDtypeOfEveryTorch) {
  for (const char* folder : {"torch-1.13", "torch-2.6", "torch-2.14"}) {
    const json tensors = inspected({"--stats", kData + "/" + folder + "/dtypes.pt"})["tensors"];
    ASSERT_GT(tensors.size(), 10);
    for (const json& row : tensors) {
      const json& stats = row["stats"];
      EXPECT_EQ(stats["count"], 9) << row;
      EXPECT_LE(stats["min"], stats["mean"]) << row;
      EXPECT_LE(stats["mean"], stats["max"]) << row;
      EXPECT_EQ(stats["histogram"].size(), 16);
    }
  }
}

TEST(InspectTest, TiedTensorsCountOnce) {
  const testing::TempFolder temp;
  const std::string bytes(64, 'x');
  const TensorView weight = make_tensor(DType::kFloat32, {4, 4}, {as_bytes(bytes), nullptr});
  save(Dict{{"model", Dict{{"embedding", weight}, {"head", weight}}}}, temp / "tied.pt");
  const json object = inspected({temp / "tied.pt"});
  EXPECT_EQ(object["contents"]["tensors"], 2);
  EXPECT_EQ(object["contents"]["parameters"], 16);
  EXPECT_EQ(object["contents"]["bytes"], 64);
  EXPECT_THAT(object["writer"], HasSubstr("cairn"));
}

TEST(InspectTest, NamesInAFileCannotTalkToTheTerminal) {
  const testing::TempFolder temp;
  save(Dict{{"\x1b[2J\x1b]0;owned\x07", "a\rb"}}, temp / "rude.pt");
  const Answer answer = run({"inspect", "--color", "never", temp / "rude.pt"});
  EXPECT_THAT(answer.out,
              AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\r")), HasSubstr("\\x1b[2J")));
}

TEST(InspectTest, ListsTheOptionsOfTheRun) {
  const testing::TempFolder folder;
  const Dict options = {{"max_duration", "2ep"}, {"\x1b[31m", "\x1b[32m"}};
  save(Dict{{"state", Dict{{"model", Dict()}, {"metadata", Dict{{"trainer_options", options}}}}}},
       folder / "a.pt");
  EXPECT_EQ(inspected({folder / "a.pt"})["options"],
            json({{"max_duration", "2ep"}, {"\x1b[31m", "\x1b[32m"}}));
  EXPECT_THAT(run({"inspect", folder / "a.pt"}).out,
              HasSubstr("options          2, see --options"));
  const Answer listed = run({"inspect", "--options", folder / "a.pt"});
  EXPECT_EQ(listed.code, kDone);
  EXPECT_THAT(listed.out, AllOf(HasSubstr("max_duration  2ep"), Not(HasSubstr("\x1b"))));
  const Answer none = run({"inspect", "--options", kComposer});
  EXPECT_EQ(none.code, kNotFound);
  EXPECT_THAT(none.err, HasSubstr("only cairn's Trainer writes them"));
  EXPECT_EQ(inspected({kComposer})["options"], json::object());
}

TEST(InspectTest, NamesTheClassOfAnObjectThatIsTheWholeCheckpoint) {
  const std::string module = "torch.nn.modules.linear.Linear";
  const std::string file = kData + "/torch-2.14/whole_module.pt";
  EXPECT_THAT(run({"inspect", file}).out, HasSubstr("kind             an object of " + module));
  EXPECT_EQ(inspected({file})["class"], module);
  EXPECT_EQ(inspected({kComposer})["class"], nullptr);
}

TEST(InspectTest, TellsAttributesOfTensorsThatAreNotKept) {
  const std::string file = kData + "/other-files/attributes.pt";
  EXPECT_THAT(run({"inspect", file}).out,
              HasSubstr("of 2 tensors, read by Python alone, as p (partition_dim, tag)"));
  EXPECT_EQ(inspected({file})["attributes"], json({{"p", "partition_dim, tag"}, {"t", "note"}}));
  const testing::TempFolder temp;
  EXPECT_THAT(run({"convert", file, temp / "a.pt"}).out,
              HasSubstr("attributes of tensors left out, because no format can hold them: "
                        "p (partition_dim, tag), t (note)"));
}

TEST(InspectTest, ObjectsOfOtherClassesAreShownByTheirNames) {
  const Answer answer = run({"inspect", kData + "/torch-2.6/custom_class.pt"});
  EXPECT_EQ(answer.code, kDone);
  EXPECT_THAT(answer.out, HasSubstr("object of __main__.Custom"));
  EXPECT_THAT(answer.out, HasSubstr("float32 [2]"));
  EXPECT_EQ(run({"inspect", kData + "/torch-2.6/whole_module.pt"}).code, kDone);
}

}  // namespace
}  // namespace cairn::cli
