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
using ::testing::HasSubstr;
using testing::kComposer;
using testing::kData;
using ::testing::StartsWith;

json extracted(const std::string& file, const std::vector<std::string>& keys) {
  std::vector<std::string> arguments = {"extract", file};
  arguments.insert(arguments.end(), keys.begin(), keys.end());
  const Answer answer = run(arguments);
  EXPECT_EQ(answer.code, kDone) << answer.err;
  return json::parse(answer.out);
}

TEST(ExtractTest, ValuesAreWhatAScriptWants) {
  EXPECT_EQ(extracted(kComposer, {"state/timestamp/Timestamp/batch"}), 8);
  EXPECT_EQ(extracted(kComposer, {"state/run_name"}), "golden-adamw_cosine");
  EXPECT_EQ(extracted(kComposer, {"state/timestamp/Timestamp/total_wct"}), 0.027902);
  const json groups = extracted(kComposer, {"state/optimizers/*/param_groups"});
  const json& group = groups["state/optimizers/DecoupledAdamW/param_groups"].at(0);
  EXPECT_EQ(group["betas"], json({0.9, 0.95}));
  EXPECT_EQ(group["fused"], nullptr);
  const json two = extracted(kComposer, {"state/run_name", "state/rank_zero_seed"});
  EXPECT_EQ(two, json({{"state/run_name", "golden-adamw_cosine"}, {"state/rank_zero_seed", 1}}));
}

TEST(ExtractTest, SmallTensorsShowTheirElements) {
  const json tensor = extracted(kComposer, {"state/model/module.1.num_batches_tracked"});
  EXPECT_EQ(tensor, json({{"dtype", "int64"}, {"shape", json::array()}, {"elements", {8}}}));
  EXPECT_EQ(extracted(kComposer, {"state/model/module.3.bias"})["elements"].size(), 4);
  // the tensor has 5056 elements
  EXPECT_FALSE(extracted(kComposer, {"rng/0/torch"}).contains("elements"));
}

TEST(ExtractTest, APartBecomesAFileOfItsOwn) {
  const testing::TempFolder temp;
  const std::string out = temp / "model.pt";
  EXPECT_EQ(run({"extract", kComposer, "state/model", "-o", out}).code, kDone);
  const Value model = load(out);
  EXPECT_TRUE(model == *find_path(load(kComposer), "state/model"));

  const Answer again = run({"extract", kComposer, "state/model", "-o", out});
  EXPECT_EQ(again.code, kFailed);
  EXPECT_THAT(again.err, HasSubstr("exists"));
  const Answer forced =
      run({"extract", "--json", "--force", kComposer, "state/model/*.bias", "-o", out});
  EXPECT_EQ(json::parse(forced.out)["tensors"], 3);
  EXPECT_EQ(load(out).as_dict().begin()->first.as_str(), "state/model/module.0.bias");
}

TEST(ExtractTest, ATensorBecomesANumpyFile) {
  const testing::TempFolder temp;
  const std::string out = temp / "weight.npy";
  ASSERT_EQ(run({"extract", kComposer, "state/model/module.0.weight", "-o", out}).code, kDone);
  const std::string bytes = testing::read_file(out);
  EXPECT_THAT(bytes, StartsWith(std::string("\x93NUMPY\x01\x00\x76\x00", 10)));
  EXPECT_THAT(bytes, HasSubstr("{'descr': '<f4', 'fortran_order': False, 'shape': (16, 8), }"));
  ASSERT_EQ(bytes.size(), 128 + 16 * 8 * 4);
  const Value checkpoint = load(kComposer);
  const auto weight =
      find_path(checkpoint, "state/model/module.0.weight")->as_tensor().contiguous_bytes();
  EXPECT_EQ(bytes.substr(128), as_text(weight.view));
}

TEST(ExtractTest, NumpyFilesOfEveryDtype) {
  const testing::TempFolder temp;
  const std::string file = kData + "/torch-2.14/dtypes.pt";
  for (const auto& [dtype, descr] : {std::pair("bfloat16", "<f4"),
                                     {"float8_e4m3fn", "<f4"},
                                     {"bool", "|b1"},
                                     {"uint8", "|u1"},
                                     {"complex32", "<c8"},
                                     {"complex128", "<c16"},
                                     {"uint64", "<u8"}}) {
    const std::string out = temp / (std::string(dtype) + ".npy");
    ASSERT_EQ(run({"extract", file, dtype, "-o", out}).code, kDone) << dtype;
    EXPECT_THAT(testing::read_file(out), HasSubstr(std::string("'descr': '") + descr + "'"));
  }
  const Answer tree = run({"extract", kComposer, "state/model", "-o", temp / "tree.npy"});
  EXPECT_EQ(tree.code, kFailed);
  EXPECT_THAT(tree.err, HasSubstr("one tensor"));
}

TEST(ExtractTest, AnUnknownExtensionIsRefused) {
  const testing::TempFolder temp;
  const Answer answer = run({"extract", kComposer, "state/model", "-o", temp / "x.npi"});
  EXPECT_EQ(answer.code, kFailed);
  EXPECT_THAT(answer.err, HasSubstr("did you mean \".npy\"?"));
  EXPECT_FALSE(std::filesystem::exists(temp / "x.npi"));
}

TEST(ExtractTest, WhatIsNotThereIsNamedAndWritesNothing) {
  const testing::TempFolder temp;
  const Answer answer = run({"extract", kComposer, "state/modell", "-o", temp / "x.pt"});
  EXPECT_EQ(answer.code, kNotFound);
  EXPECT_THAT(answer.err, HasSubstr("state/modell"));
  EXPECT_EQ(run({"inspect", temp / "x.pt"}).code, kNotFound);
}

}  // namespace
}  // namespace cairn::cli
