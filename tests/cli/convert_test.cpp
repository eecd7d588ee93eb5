#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/exit_code.h"
#include "cairn/foreign.h"

#include "checkpoint/open/source.h"
#include "run_tool.h"
#include "testing/temp_folder.h"

namespace cairn::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::TempFolder;

const std::string kEma = CAIRN_TEST_DATA "/composer-0.33/ema/ep2-ba15-rank0.pt";

Answer convert(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "convert");
  return run(arguments);
}

TEST(ConvertCommandTest, SaysWhatWasWrittenAndWhatWasLeftOut) {
  const TempFolder temp;
  const Answer answer = convert({kEma, temp / "m.safetensors"});
  EXPECT_EQ(answer.code, kDone) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("m.safetensors: safetensors, 37 tensors, "));
  EXPECT_THAT(answer.out, HasSubstr("left out, because not a tensor: "));
  EXPECT_THAT(answer.out, HasSubstr(" more\n"));
  EXPECT_EQ(answer.err, "");
}

TEST(ConvertCommandTest, JsonHasEveryNameInFull) {
  const TempFolder temp;
  const Answer answer = convert({"--json", kEma, temp / "m", "--weights-only", "--dtype", "bf16",
                                 "--shard-size", "300", "--rename", "module.=net."});
  ASSERT_EQ(answer.code, kDone) << answer.err;
  const auto object = nlohmann::json::parse(answer.out);
  EXPECT_EQ(object["format"], "safetensors");
  EXPECT_EQ(object["out"], temp / "m");
  EXPECT_EQ(object["files"].size(), 3U);
  EXPECT_EQ(object["tensors"], 9);
  EXPECT_EQ(object["left_out"].size(), 0U);
  EXPECT_EQ(object["tied"].size(), 0U);
  const Value model = open_source(temp / "m")->read();
  EXPECT_EQ(model.at("net.0.weight").as_tensor().dtype, DType::kBFloat16);
}

TEST(ConvertCommandTest, RepeatedOptionsTakeOneValueEach) {
  const TempFolder temp;
  const Answer answer = convert({"--include", "state/model/*", "--include", "rng*", "--exclude",
                                 "*.bias", kEma, temp / "m.pt"});
  ASSERT_EQ(answer.code, kDone) << answer.err;
  const Value part = open_source(temp / "m.pt")->read();
  EXPECT_EQ(part.at("state").as_dict().size(), 1U);
  EXPECT_NE(part.find("rng"), nullptr);
}

TEST(ConvertCommandTest, WrongUseIsAnErrorWithItsExitCode) {
  const TempFolder temp;
  testing::write_file(temp / "there.pt", "old");
  EXPECT_EQ(convert({kEma}).code, kFailed);
  EXPECT_EQ(convert({kEma, temp / "x.pt", "--dtype", "fp7"}).code, kFailed);
  EXPECT_EQ(convert({kEma, temp / "x.pt", "--rename", "module"}).code, kFailed);
  EXPECT_EQ(convert({kEma, temp / "x.pt", "--to", "onnx"}).code, kFailed);
  for (const char* size :
       {"--shard-size=-5", "--shard-size=0", "--shard-size=-1GB", "--shard-size=some"}) {
    const Answer answer = convert({kEma, temp / "shards", size});
    EXPECT_EQ(answer.code, kFailed) << size;
    EXPECT_THAT(answer.err, HasSubstr("a size above 0 is needed"));
  }
  EXPECT_EQ(convert({kEma, temp / "there.pt"}).code, kFailed);
  EXPECT_THAT(convert({kEma, temp / "there.pt"}).err, HasSubstr("exists already"));
  EXPECT_EQ(convert({temp / "missing.pt", temp / "x.pt"}).code, kNotFound);
  const Answer complex = convert({CAIRN_TEST_DATA "/torch-2.14/dtypes.pt", temp / "x.safetensors"});
  EXPECT_EQ(complex.code, kIncompatible);
  EXPECT_THAT(complex.err, HasSubstr("complex"));
}

TEST(ConvertCommandTest, AnUnknownExtensionIsRefusedWithTheNearestOne) {
  const TempFolder temp;
  const Answer near = convert({kEma, temp / "model.safetensor"});
  EXPECT_EQ(near.code, kFailed);
  EXPECT_THAT(near.err, HasSubstr("no format has the extension \".safetensor\"; did you mean "
                                  "\".safetensors\"? --to torch, safetensors or dcp says"));
  const Answer far = convert({kEma, temp / "model.gguf"});
  EXPECT_EQ(far.code, kFailed);
  EXPECT_THAT(far.err, HasSubstr("\".gguf\": there are .safetensors, .pt, "));
  EXPECT_FALSE(std::filesystem::exists(temp / "model.safetensor"));
  EXPECT_FALSE(std::filesystem::exists(temp / "model.gguf"));

  EXPECT_EQ(convert({kEma, temp / "model.safetensor", "--to", "safetensors"}).code, kDone);
  EXPECT_EQ(convert({kEma, temp / "shards.gguf", "--shard-size", "1MB"}).code, kDone);
  for (const char* name :
       {"a.pth", "a.bin", "a.CKPT", "a.tgz", "a", "run.v2", "lr0.1-ep3", "d.f/"}) {
    EXPECT_EQ(convert({kEma, temp / name, "--drop-objects"}).code, kDone) << name;
  }
}

// A checkpoint of an old Composer, which pickles objects of torchmetrics.
class ForeignObjectsTest : public ::testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  std::string file() const {
    return std::string(CAIRN_TEST_DATA "/composer-releases/") + GetParam().first +
           "/adam_steplr/ep1-ba8-rank0.pt";
  }
  std::string class_name() const {
    return std::string("torchmetrics.classification.accuracy.") + GetParam().second;
  }
};

TEST_P(ForeignObjectsTest, CostNothingOfTheRestAndAreShownByTheirClass) {
  const Value state = open_source(file())->read().at("state");
  EXPECT_EQ(state.at("model").as_dict().size(), 9U);
  EXPECT_EQ(state.at("timestamp").at("Timestamp").at("batch").as_int(), 8);
  const Foreign& metric = state.at("train_metrics").as_dict().begin()->second.as_foreign();
  EXPECT_EQ(metric.class_name(), class_name());
  EXPECT_EQ(metric.state.at("training"), Value(true));
  const Answer dump = run({"dump", file()});
  EXPECT_EQ(dump.code, kDone) << dump.err;
  EXPECT_THAT(dump.out, HasSubstr("\"class\":\"" + class_name() + "\""));
  EXPECT_EQ(run({"verify", file()}).code, kDone);
  EXPECT_THAT(run({"inspect", "--depth", "4", file()}).out, HasSubstr("object of " + class_name()));
}

TEST_P(ForeignObjectsTest, AreWrittenAgainAsTheyWereOrLeftOut) {
  const TempFolder temp;
  const Answer kept = convert({file(), temp / "kept.pt"});
  EXPECT_EQ(kept.code, kDone) << kept.err;
  EXPECT_THAT(kept.out, HasSubstr("for Python to make: " + class_name()));
  EXPECT_EQ(run({"dump", temp / "kept.pt"}).out, run({"dump", file()}).out);
  EXPECT_EQ(run({"diff", file(), temp / "kept.pt"}).code, kDone);
  const Answer dropped = convert({"--drop-objects", file(), temp / "dropped.pt"});
  EXPECT_EQ(dropped.code, kDone) << dropped.err;
  EXPECT_THAT(dropped.out, HasSubstr("objects left out: state/train_metrics/"));
  const Value rest = open_source(temp / "dropped.pt")->read();
  EXPECT_TRUE(foreign_objects(rest).empty());
  EXPECT_EQ(rest.at("state").at("model"), open_source(file())->read().at("state").at("model"));
  // Metrics hold tensors, so the command does not drop the metrics silently.
  const Answer refused = convert({file(), temp / "m.safetensors"});
  EXPECT_EQ(refused.code, kIncompatible);
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr(class_name()), HasSubstr("state_dict()"), HasSubstr("--drop-objects"),
                    Not(HasSubstr("files of all ranks"))));
  EXPECT_EQ(convert({"--drop-objects", file(), temp / "m.safetensors"}).code, kDone);
}

INSTANTIATE_TEST_SUITE_P(Composer, ForeignObjectsTest,
                         ::testing::Values(std::pair("v0.10.1", "Accuracy"),
                                           std::pair("v0.13.5", "MulticlassAccuracy")),
                         [](const auto& of) { return std::string(of.param.second); });

TEST(DropObjectsTest, LeavesPlacesInListsAndNoFactoryOfAnotherClass) {
  const TempFolder temp;
  const Value os_system(std::make_shared<const Foreign>(Foreign{.module = "os", .name = "system"}));
  const Value list_type(
      std::make_shared<const Foreign>(Foreign{.module = "builtins", .name = "list"}));
  Dict evil(DictType::kDefaultDict);
  evil.set_default_factory(os_system);
  Dict good(DictType::kDefaultDict);
  good.set_default_factory(list_type);
  Dict module = Dict::ordered({{"w", 1}});
  module.set_attributes(Dict{{"_metadata", Dict{{"v", os_system}, {"n", 2}}}});
  save(Dict{{"list", List{1, os_system, 3}},
            {"evil", evil},
            {"good", good},
            {"module", module},
            {os_system, 5}},
       temp / "a.pt");
  const Answer answer = convert({"--json", "--drop-objects", temp / "a.pt", temp / "b.pt"});
  ASSERT_EQ(answer.code, kDone) << answer.err;
  EXPECT_EQ(nlohmann::json::parse(answer.out)["dropped"].size(), 4U) << answer.out;
  const Value left = open_source(temp / "b.pt")->read();
  EXPECT_EQ(left, Value(Dict{{"list", List{1, None{}, 3}},
                             {"evil", Dict()},
                             {"good", Dict()},
                             {"module", Dict{{"w", 1}}}}));
  EXPECT_TRUE(left.at("evil").as_dict().default_factory().is_none());
  EXPECT_TRUE(left.at("good").as_dict().default_factory().is_foreign());
  EXPECT_EQ(left.at("module").as_dict().attributes(), Value(Dict{{"_metadata", Dict{{"n", 2}}}}));
}

TEST(ConvertCommandTest, NamesThatSafetensorsCannotHoldAreSaid) {
  const TempFolder temp;
  const auto numbers = std::make_shared<const std::string>(std::string(8, '\1'));
  const Value tensor = make_tensor(DType::kFloat32, {2}, {as_bytes(*numbers), numbers});
  save(tensor, temp / "bare.pt");
  save(Dict{{"a", tensor}, {3, Dict{{"b", 1.5}, {"c", tensor}}}}, temp / "keys.pt");
  EXPECT_THAT(convert({temp / "bare.pt", temp / "bare.safetensors"}).out,
              HasSubstr("\"\" (key none: the tensor is the whole object)"));
  const Answer keys = convert({temp / "keys.pt", temp / "keys.safetensors"});
  EXPECT_THAT(keys.out, HasSubstr("\"3.c\" (key of type int)"));
  EXPECT_THAT(keys.out, Not(HasSubstr("\"a\"")));
}

}  // namespace
}  // namespace cairn::cli
