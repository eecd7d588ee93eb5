#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cairn/exit_code.h"

#include "checkpoint/source.h"
#include "run_tool.h"
#include "testing/temp_folder.h"

namespace cairn::cli {
namespace {

using ::testing::HasSubstr;
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
  EXPECT_THAT(answer.out, HasSubstr("left out, as it is no tensor: "));
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
  EXPECT_EQ(convert({kEma, temp / "there.pt"}).code, kFailed);
  EXPECT_THAT(convert({kEma, temp / "there.pt"}).err, HasSubstr("exists already"));
  EXPECT_EQ(convert({temp / "missing.pt", temp / "x.pt"}).code, kNotFound);
  const Answer complex = convert({CAIRN_TEST_DATA "/torch-2.14/dtypes.pt", temp / "x.safetensors"});
  EXPECT_EQ(complex.code, kIncompatible);
  EXPECT_THAT(complex.err, HasSubstr("complex"));
}

}  // namespace
}  // namespace cairn::cli
