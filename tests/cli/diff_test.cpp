#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>

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
using testing::kData;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kRun = kData + "/composer-0.33/adamw_cosine/";

const std::string kZero(8, '\0');

// One float32 tensor of these numbers.
TensorView tensor(const std::vector<float>& numbers) {
  auto owner = std::make_shared<std::vector<float>>(numbers);
  return make_tensor(DType::kFloat32, {static_cast<std::int64_t>(numbers.size())},
                     {std::as_bytes(std::span(*owner)), owner});
}

class DiffTest : public ::testing::Test {
 protected:
  std::string saved(const std::string& name, const Value& value) const {
    save(value, folder_ / name);
    return folder_ / name;
  }
  static json differences(std::vector<std::string> arguments, int code) {
    arguments.insert(arguments.begin(), {"diff", "--json"});
    const Answer answer = run(arguments);
    EXPECT_EQ(answer.code, code) << answer.out << answer.err;
    return json::parse(answer.out);
  }
  testing::TempFolder folder_;
};

TEST_F(DiffTest, AFileIsIdenticalToItself) {
  for (const char* file :
       {"torch-1.13/views.pt", "torch-2.6/dtypes.pt", "torch-2.14/schedulers.pt",
        "torch-2.6/python_values.pt", "torch-2.6/rng_state.pt", "torch-2.6/sparse_layouts.pt",
        "torch-2.14/quantized_kinds.pt", "torch-2.14/dtypes.safetensors"}) {
    const Answer answer = run({"diff", "--wall-clock", kData + "/" + file, kData + "/" + file});
    EXPECT_EQ(answer.code, 0) << answer.out;
    EXPECT_THAT(answer.out, HasSubstr("identical: "));
  }
}

TEST_F(DiffTest, TwoSavesOfARunDifferInTheirTensorsAndCounters) {
  const json object =
      differences({kRun + "ep0-ba3-rank0.pt", kRun + "ep0-ba5-rank0.pt"}, kNegativeAnswer);
  EXPECT_EQ(object["identical"], false);
  EXPECT_EQ(object["tensors"].size(), 27);
  EXPECT_EQ(object["same_tensors"], 1);  // the generator's state
  const json& first = object["tensors"].at(0);
  EXPECT_EQ(first["path"], "state/model/module.0.weight");
  EXPECT_EQ(first["differing"], 128);
  EXPECT_EQ(first["elements"], 128);
  EXPECT_GT(first["max_abs"], first["mean_abs"]);
  EXPECT_THAT(object["values"].dump(), HasSubstr("state/timestamp/Timestamp/batch"));
  EXPECT_THAT(object["values"].dump(), Not(HasSubstr("_wct")));
  EXPECT_GT(object["ignored"], 0);
}

TEST_F(DiffTest, WhatDiffersInEveryRunCountsOnlyWhenAsked) {
  const auto state = [](int microseconds, const std::string& address, const std::string& folder) {
    const Dict timestamp = {{"batch", 3}, {"total_wct", TimeDelta{0, 0, microseconds}}};
    const Dict saver = {{"all_saved_checkpoints_to_timestamp", List{folder + "/ep1.pt"}}};
    return Dict{
        {"state", Dict{{"timestamp", Dict{{"Timestamp", timestamp}}},
                       {"algorithms", List{"<GradientClipping object at 0x" + address + ">"}},
                       {"callbacks", Dict{{"CheckpointSaver", saver}}}}}};
  };
  const std::string a = saved("a.pt", state(17, "7f96", "straight"));
  const std::string b = saved("b.pt", state(18, "7f97a", "resumed"));
  EXPECT_EQ(differences({a, b}, 0)["ignored"], 2);
  EXPECT_EQ(differences({"--wall-clock", a, b}, 1)["values"].size(), 3);
}

TEST_F(DiffTest, NamesWhatIsThereOnOneSideAndWhatHasAnotherKind) {
  const std::string a =
      saved("a.pt", Dict{{"w", tensor({1, 2})}, {"x", 1}, {"only_a", "text"}, {"e", List{}}});
  const std::string b =
      saved("b.pt", Dict{{"w", tensor({1, 2, 3})}, {"x", 1.0}, {"only_b", None{}}, {"e", Dict{}}});
  const json object = differences({a, b}, kNegativeAnswer);
  EXPECT_EQ(object["only_in_a"], json({"only_a"}));
  EXPECT_EQ(object["only_in_b"], json({"only_b"}));
  EXPECT_EQ(object["tensors"].at(0)["b"]["shape"], json({3}));
  EXPECT_EQ(object["tensors"].at(0)["differing"], nullptr);
  EXPECT_EQ(object["values"].size(), 2);  // diff distinguishes 1 from 1.0, and a list from a dict
  const Answer text = run({"diff", a, b});
  EXPECT_THAT(text.out, AllOf(HasSubstr("only in A  only_a"), HasSubstr("[2] / [3]"),
                              HasSubstr("different: 1 tensors, 2 values")));
}

TEST_F(DiffTest, WeightsAreFoundInOtherFilesWhateverIsAroundThem) {
  const Dict model = {{"layer", Dict{{"weight", tensor({1, 2})}}}, {"bias", tensor({3})}};
  const std::string a = saved("a.pt", Dict{{"state", Dict{{"model", model}, {"seed", 17}}}});
  const std::string b =
      saved("b.pt", Dict{{"bias", tensor({3})}, {"layer.weight", tensor({1, 2})}});
  EXPECT_EQ(differences({a, b}, kNegativeAnswer)["only_in_b"].size(), 2);
  EXPECT_EQ(differences({"--weights-only", a, b}, kDone)["same_tensors"], 2);
}

TEST_F(DiffTest, OptionsOfAModelAreNotTakenForItsWeights) {
  const auto file = [&](const char* name, float weight) {
    return saved(name, Dict{{"model", Dict{{"arch", "resnet"}, {"layers", 50}}},
                            {"state_dict", Dict{{"w", tensor({weight})}}}});
  };
  const json object =
      differences({"--weights-only", file("a.pt", 1), file("b.pt", 2)}, kNegativeAnswer);
  EXPECT_EQ(object["tensors"].at(0)["path"], "w");
}

TEST_F(DiffTest, WhereThereAreNoWeightsToCompareNothingIsIdentical) {
  const std::string none = saved("none.pt", Dict{{"model", Dict{{"layers", 50}}}});
  const Answer answer = run({"diff", "--weights-only", none, none});
  EXPECT_EQ(answer.code, kFailed);
  EXPECT_THAT(answer.err, HasSubstr("none.pt holds no tensor"));
  EXPECT_EQ(answer.out, "");
  const std::string twice =
      saved("twice.pt", Dict{{"a", Dict{{"b", tensor({1})}}}, {"a.b", tensor({2})}});
  const Answer collision = run({"diff", "--weights-only", twice, twice});
  EXPECT_EQ(collision.code, kFailed);
  EXPECT_THAT(collision.err, HasSubstr("a/b and a.b have one name"));
}

TEST_F(DiffTest, AToleranceForgivesNumbersAndDtypes) {
  std::string bfloat("\x80\x3f\x00\x40", 4);  // 1, 2
  const std::string a = saved("a.pt", Dict{{"w", tensor({1, 2.01F})}, {"lr", 0.1}});
  const std::string b =
      saved("b.pt", Dict{{"w", make_tensor(DType::kBFloat16, {2}, {as_bytes(bfloat), nullptr})},
                         {"lr", 0.1000001}});
  EXPECT_EQ(run({"diff", a, b}).code, kNegativeAnswer);
  EXPECT_EQ(run({"diff", "--atol", "0.1", a, b}).code, kDone);
  EXPECT_EQ(differences({"--atol", "0.001", a, b}, kNegativeAnswer)["tensors"].at(0)["differing"],
            1);
  EXPECT_EQ(run({"diff", "--atol", "-1", a, b}).code, kFailed);
}

TEST_F(DiffTest, ToleranceIsAFiniteNumber) {
  const std::string a = saved("a.pt", Dict{{"w", tensor({1})}});
  const std::string b = saved("b.pt", Dict{{"w", tensor({2})}});
  for (const char* atol : {"nan", "inf"}) {
    const Answer answer = run({"diff", "--atol", atol, a, b});
    EXPECT_EQ(answer.code, kFailed) << atol;
    EXPECT_THAT(answer.err, HasSubstr("--atol"));
    EXPECT_EQ(answer.out, "");
  }
}

TEST_F(DiffTest, ANaNIsTheSameAsANaNWhateverNumberItIsIn) {
  const double nan = std::nan("");
  NumpyScalar scalar;
  std::memcpy(scalar.bytes.data(), &nan, sizeof(nan));
  const auto file = [&](const char* name, double number) {
    return saved(
        name,
        Dict{{"float", nan}, {"complex", std::complex<double>(number, nan)}, {"numpy", scalar}});
  };
  const std::string a = file("a.pt", 1);
  EXPECT_EQ(differences({a, a}, kDone)["same_values"], 3);
  const std::string b = file("b.pt", 2);
  EXPECT_EQ(differences({a, b}, kNegativeAnswer)["values"].at(0)["path"], "complex");
  const auto numbers = [&](const char* name, double number) {
    return saved(name, Dict{{"complex", std::complex<double>(number, 1)}});
  };
  EXPECT_EQ(run({"diff", "--atol", "0.2", numbers("c.pt", 1), numbers("d.pt", 1.1)}).code, kDone);
}

TEST_F(DiffTest, TensorsInSetsAreComparedByTheirContent) {
  const auto file = [&](const char* name, float number) {
    return saved(name, Dict{{"set", Set{{tensor({1}), tensor({number})}}}});
  };
  const std::string a = file("a.pt", 2);
  EXPECT_EQ(differences({a, file("b.pt", 2)}, kDone)["same_values"], 1);
  EXPECT_EQ(differences({a, file("c.pt", 3)}, kNegativeAnswer)["values"].at(0)["path"], "set");
}

TEST_F(DiffTest, KeysThatAreObjectsAreComparedByTheirContent) {
  const auto file = [&](const char* name, float number, const char* text, std::int64_t item) {
    return saved(name,
                 Dict{{"d", Dict{{tensor({number}), 1}, {Bytes{text}, 2}, {Tuple{{1, item}}, 3}}}});
  };
  const std::string a = file("a.pt", 1, "x", 1);
  differences({a, file("b.pt", 1, "x", 1)}, kDone);
  EXPECT_EQ(differences({a, file("c.pt", 2, "x", 1)}, kNegativeAnswer)["tensors"].at(0)["path"],
            "d/tensor (key)");
  EXPECT_EQ(differences({a, file("e.pt", 1, "y", 1)}, kNegativeAnswer)["values"].at(0)["path"],
            "d/bytes (key)");
  EXPECT_EQ(differences({a, file("f.pt", 1, "x", 2)}, kNegativeAnswer)["values"].at(0)["path"],
            "d/tuple (key)/1");
}

// A checkpoint with these options of its run.
Value with_options(const Dict& options) {
  return Dict{{"state", Dict{{"batch", 1}, {"metadata", Dict{{"trainer_options", options}}}}}};
}

TEST_F(DiffTest, OptionsOfTheRunsComeFirstAndAreNoState) {
  const std::string a =
      saved("a.pt", with_options({{"seed", "1"}, {"max_duration", "2ep"}, {"only", "here"}}));
  const std::string b =
      saved("b.pt", with_options({{"seed", "1"}, {"max_duration", "\x1b[2J4ep"}, {"new", "x"}}));
  const json found = differences({a, b}, kDone);
  EXPECT_EQ(found["identical"], true);
  EXPECT_EQ(found["same_values"], 2);  // the batch, and the rest of the metadata: nothing
  EXPECT_EQ(found["options"], json({{{"name", "max_duration"}, {"a", "2ep"}, {"b", "\x1b[2J4ep"}},
                                    {{"name", "new"}, {"a", nullptr}, {"b", "x"}},
                                    {{"name", "only"}, {"a", "here"}, {"b", nullptr}}}));
  const Answer shown = run({"diff", a, b});
  EXPECT_THAT(shown.out, StartsWith("OPTION        A     B\n"));
  EXPECT_THAT(shown.out, AllOf(HasSubstr("max_duration  2ep"), HasSubstr("only          here  -"),
                               HasSubstr("identical: "), Not(HasSubstr("\x1b"))));
}

// No Trainer wrote them, so they are compared as everything else.
TEST_F(DiffTest, OptionsThatAreNoTextsAreValues) {
  const std::string a = saved("a.pt", with_options({{"lr", 1}}));
  EXPECT_EQ(
      differences({a, saved("b.pt", with_options({{"lr", 2}}))}, kNegativeAnswer)["values"].at(
          0)["path"],
      "state/metadata/trainer_options/lr");
}

TEST_F(DiffTest, ACheckpointWithoutOptionsHasNoneToCompare) {
  const std::string a = saved("a.pt", with_options({{"seed", "1"}}));
  const std::string b = saved("b.pt", Dict{{"state", Dict{{"batch", 2}, {"metadata", Dict()}}}});
  const json found = differences({a, b}, kNegativeAnswer);
  EXPECT_EQ(found["options"], json::array());
  EXPECT_EQ(found["only_in_b"], json::array());
  EXPECT_EQ(found["values"].size(), 1U);
}

TEST_F(DiffTest, OfSparseTensorsThePartsAreCompared) {
  const TensorView indices = make_tensor(DType::kInt64, {1, 1}, {as_bytes(kZero), nullptr});
  const auto sparse = [&](float number, std::int64_t size) {
    return Dict{
        {"w", SparseTensor{.shape = {size}, .indices = indices, .values = tensor({number})}}};
  };
  const std::string a = saved("a.pt", sparse(1, 5));
  const json other_value = differences({a, saved("b.pt", sparse(2, 5))}, kNegativeAnswer);
  EXPECT_EQ(other_value["tensors"].at(0)["path"], "w/values");
  EXPECT_EQ(other_value["tensors"].at(0)["max_abs"], 1);
  EXPECT_EQ(other_value["same_tensors"], 1);
  const json other_shape = differences({a, saved("c.pt", sparse(1, 6))}, kNegativeAnswer);
  EXPECT_EQ(other_shape["values"].at(0)["path"], "w");
}

TEST_F(DiffTest, QuantizedTensorsDifferWhenTheirIntegersStandForOtherNumbers) {
  const auto quantized = [&](double scale) {
    TensorView view = make_tensor(DType::kQInt8, {8}, {as_bytes(kZero), nullptr});
    view.quantizer = std::make_shared<const Quantizer>(Quantizer{.scale = scale});
    return Dict{{"w", view}};
  };
  const json object =
      differences({saved("a.pt", quantized(0.5)), saved("b.pt", quantized(0.25))}, kNegativeAnswer);
  EXPECT_EQ(object["tensors"].at(0)["other_scale"], true);
  EXPECT_EQ(object["tensors"].at(0)["differing"], 0);
}

}  // namespace
}  // namespace cairn::cli
