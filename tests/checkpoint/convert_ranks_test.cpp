// Converting the files that the ranks of a job saved to one checkpoint of full tensors. No tensor
// is left out without an error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "cairn/checkpoint/convert.h"
#include "cairn/dtensor.h"
#include "cairn/error.h"
#include "cairn/foreign.h"
#include "cairn/format/torch_file.h"

#include "converted.h"
#include "testing/file_bytes.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"
#include "tests/format/dtensor_text.h"

namespace cairn {
namespace {

using namespace std::string_literals;  // NOLINT
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::floats;
using ::testing::HasSubstr;
using testing::kData;
using ::testing::Pair;
using testing::read;
using testing::TempFolder;

const std::string kShardFiles = kData + "/torch-2.14/dtensor/";
const std::string kObjects = kData + "/torch-2.14/objects/";

std::vector<std::string> ranks_of(const std::string& name, int count) {
  std::vector<std::string> files;
  for (int rank = 0; rank < count; ++rank) {
    files.push_back(kShardFiles + name + "-rank" + std::to_string(rank) + ".pt");
  }
  return files;
}

template <class E>
std::string refusal(const std::vector<std::string>& files, const std::string& out,
                    const ConvertOptions& options = {}) {
  try {
    convert_ranks(files, out, options);
  } catch (const E& e) {
    return e.what();
  } catch (const std::exception& e) {
    return std::string("another error: ") + e.what();
  }
  return "no error";
}

struct GoldenSet {
  const char* name;
  int ranks;
};

class ConvertRanksTest : public ::testing::TestWithParam<GoldenSet> {};

TEST_P(ConvertRanksTest, GivesWhatTheRanksHoldTogether) {
  const TempFolder temp;
  const auto [name, count] = GetParam();
  const std::vector<std::string> files = ranks_of(name, count);
  const Value full = read(kShardFiles + name + "-full.pt");
  const ConvertResult result = convert_ranks(files, temp / "out.pt");
  EXPECT_EQ(read(temp / "out.pt"), full);
  EXPECT_GT(result.gathered, 0U);
  EXPECT_THAT(result.objects, ::testing::IsEmpty());
  EXPECT_THAT(result.differing, ::testing::IsEmpty());
  EXPECT_TRUE(verify(temp / "out.pt").ok());
}

TEST_P(ConvertRanksTest, GivesTheSameInEveryFormat) {
  const TempFolder temp;
  const auto [name, count] = GetParam();
  const std::vector<std::string> files = ranks_of(name, count);
  convert(kShardFiles + name + "-full.pt", temp / "expected.safetensors");
  convert_ranks(files, temp / "out.safetensors");
  EXPECT_EQ(read(temp / "out.safetensors"), read(temp / "expected.safetensors"));
  convert(kShardFiles + name + "-full.pt", temp / "expected/");
  convert_ranks(files, temp / "out/");
  EXPECT_EQ(read(temp / "out"), read(temp / "expected"));
}

TEST_P(ConvertRanksTest, TheOrderOfTheFilesDoesNotMatter) {
  const TempFolder temp;
  const auto [name, count] = GetParam();
  std::vector<std::string> files = ranks_of(name, count);
  std::ranges::reverse(files);
  convert_ranks(files, temp / "out.pt");
  EXPECT_EQ(read(temp / "out.pt"), read(kShardFiles + name + "-full.pt"));
}

TEST_P(ConvertRanksTest, ASetWithAFileLessOrAFileTwiceIsRefusedAndNothingIsWritten) {
  const TempFolder temp;
  const auto [name, count] = GetParam();
  for (int gone = 0; gone < count; ++gone) {
    std::vector<std::string> files = ranks_of(name, count);
    const std::string missing = files[static_cast<std::size_t>(gone)];
    std::erase(files, missing);
    EXPECT_THAT(refusal<Error>(files, temp / "out.safetensors"),
                ::testing::AnyOf(HasSubstr("is missing: give the files of all ranks"),
                                 HasSubstr("Give the files of all ranks")));
    files.push_back(files.front());
    EXPECT_THAT(refusal<UsageError>(files, temp / "out.safetensors"),
                HasSubstr("are of the same rank"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(temp.path()));
}

INSTANTIATE_TEST_SUITE_P(Golden, ConvertRanksTest,
                         ::testing::Values(GoldenSet{"fsdp2", 2}, GoldenSet{"hsdp", 4},
                                           GoldenSet{"strided", 4}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(ConvertShardsTest, OptionsApplyToTheFullTensors) {
  const TempFolder temp;
  const ConvertResult result = convert_ranks(
      ranks_of("fsdp2", 2), temp / "out.safetensors",
      {.weights_only = true, .rename = {{"0.", "first."}}, .dtype = DType::kBFloat16});
  EXPECT_EQ(result.gathered, 4U);
  const Value out = read(temp / "out.safetensors");
  EXPECT_EQ(out.at("first.weight").as_tensor().shape, Dims({5, 3}));
  EXPECT_EQ(out.at("first.weight").as_tensor().dtype, DType::kBFloat16);
}

TEST(ConvertShardsTest, MissingRanksAreNamedByTheirPlaceInTheMesh) {
  const TempFolder temp;
  std::vector<std::string> files = ranks_of("hsdp", 4);
  files.erase(files.begin() + 2);
  EXPECT_THAT(refusal<UsageError>(files, temp / "out.pt"),
              AllOf(HasSubstr("rows: "), HasSubstr("a mesh (2, 2) has 4 ranks, and there are 3"),
                    HasSubstr("the file of the rank at (1, 0) is missing")));
}

TEST(ConvertShardsTest, PartialSumsAreRefusedWithTheReason) {
  const TempFolder temp;
  EXPECT_THAT(refusal<UnsupportedError>(ranks_of("partial", 2), temp / "out.pt"),
              AllOf(HasSubstr("sum: "), HasSubstr("(Partial(sum))"),
                    HasSubstr("each rank has a term that is still to be reduced")));
}

TEST(ConvertShardsTest, FilesOfDifferentJobsAreRefused) {
  const TempFolder temp;
  EXPECT_THAT(refusal<UsageError>({ranks_of("fsdp2", 2)[0], ranks_of("hsdp", 4)[1]}, temp / "o.pt"),
              HasSubstr("not the files of all ranks of one model"));
  const std::string full = kShardFiles + "fsdp2-full.pt";
  EXPECT_THAT(refusal<UsageError>({full, full}, temp / "o.pt"),
              HasSubstr("hold no distributed tensor"));
}

std::string rank_file(const std::string& more, const testing::DTensorText& text) {
  return testing::torch_file_of(
      testing::pickle("}(" + testing::unicode("w") + testing::dtensor(text) + more + "u"));
}

// Two files with a shard each. `more`: further content of each file.
std::vector<std::string> two_ranks(const TempFolder& temp, const std::string& more,
                                   const std::string& more_of_other) {
  testing::write_file(temp / "0.pt", rank_file(more, {.coordinate = "]K\0a"s}));
  testing::write_file(temp / "1.pt", rank_file(more_of_other, {}));
  return {temp / "0.pt", temp / "1.pt"};
}

TEST(ConvertShardsTest, FilesOfAnOlderPyTorchArePutTogether) {
  const TempFolder temp;
  convert_ranks(two_ranks(temp, "", ""), temp / "out.pt");
  const Value out = read(temp / "out.pt");
  EXPECT_EQ(out.at("w").as_tensor().shape, Dims({4, 2}));
  EXPECT_TRUE(out.at("w").as_tensor().requires_grad);
}

TEST(ConvertShardsTest, ValuesThatDifferAreTakenFromTheFirstFileAndNamed) {
  const TempFolder temp;
  const auto files =
      two_ranks(temp, testing::unicode("rank") + "K\0"s, testing::unicode("rank") + "K\1");
  const ConvertResult result = convert_ranks(files, temp / "out.pt");
  EXPECT_THAT(result.differing, ElementsAre("rank"));
  EXPECT_EQ(read(temp / "out.pt").at("rank"), Value(0));
}

TEST(ConvertShardsTest, PlainTensorsThatDifferAreRefusedAsOnlyOneWouldBeKept) {
  const TempFolder temp;
  const auto plain = [](const char* size) {
    return testing::unicode("b") +
           testing::tensor(testing::float_storage() + "K\0"s + size + "\x85K\1\x85");
  };
  const auto files = two_ranks(temp, plain("K\1"), plain("K\2"));
  EXPECT_THAT(refusal<UsageError>(files, temp / "out.pt"),
              AllOf(HasSubstr("a tensor at b is not the same in"), HasSubstr("--exclude")));
  EXPECT_THAT(refusal<UsageError>(files, temp / "out.pt", {.exclude = {"b"}}), "no error");
}

TEST(ConvertShardsTest, AFileThatLacksANameOfTheOthersIsRefused) {
  const TempFolder temp;
  const std::string more = testing::unicode("n") + "K\1";
  EXPECT_THAT(refusal<UsageError>(two_ranks(temp, more, ""), temp / "out.pt"),
              HasSubstr("1.pt has nothing at n"));
  EXPECT_THAT(refusal<UsageError>(two_ranks(temp, "", more), temp / "out.pt"),
              HasSubstr("0.pt has nothing at n"));
}

TEST(ConvertShardsTest, AShardOfAnotherSizeThanItsPlacementIsDamage) {
  const TempFolder temp;
  testing::write_file(temp / "0.pt",
                      rank_file("", {.shape = "K\5K\2\x86"s, .coordinate = "]K\0a"s}));
  testing::write_file(temp / "1.pt", rank_file("", {.shape = "K\5K\2\x86"s}));
  EXPECT_THAT(refusal<CorruptError>({temp / "0.pt", temp / "1.pt"}, temp / "out.pt"),
              HasSubstr("a shard of another size than its placements give"));
}

// --- One file ------------------------------------------------------------------------------------

TEST(ConvertShardsTest, OneRanksFileStaysAsItIsInATorchFile) {
  const TempFolder temp;
  const std::string file = ranks_of("fsdp2", 2)[1];
  const ConvertResult result = convert(file, temp / "out.pt");
  EXPECT_THAT(result.objects, ElementsAre(Pair("torch.distributed.tensor.DTensor", 12U)));
  EXPECT_EQ(result.gathered, 0U);
  const Value out = read(temp / "out.pt");
  const auto tensor = find_dtensor(out.at("model").at("0.weight").as_foreign());
  ASSERT_TRUE(tensor);
  EXPECT_EQ(placement_text(*tensor), "[2, 3] of [5, 3], (Shard(0)) at (1) of a mesh (2)");
  convert_ranks({ranks_of("fsdp2", 2)[0], temp / "out.pt"}, temp / "full.pt");
  EXPECT_EQ(read(temp / "full.pt"), read(kShardFiles + "fsdp2-full.pt"));
}

TEST(ConvertShardsTest, AnotherPrecisionLeavesTheShardsThatItCannotChangeAsTheyWere) {
  const TempFolder temp;
  convert(ranks_of("fsdp2", 2)[1], temp / "out.pt", {.dtype = DType::kBFloat16});
  EXPECT_TRUE(find_dtensor(read(temp / "out.pt").at("model").at("0.weight").as_foreign()));
}

TEST(ConvertShardsTest, OneRanksFileIsRefusedByFormatsOfFullTensorsWithEveryClassAndPath) {
  const TempFolder temp;
  for (const char* out : {"out.safetensors", "out/"}) {
    EXPECT_THAT(
        refusal<UnsupportedError>({ranks_of("fsdp2", 2)[0]}, temp / out, {.weights_only = true}),
        AllOf(HasSubstr("\n  0.weight: torch.distributed.tensor.DTensor [3, 3] of [5, 3], "
                        "(Shard(0)) at (0) of a mesh (2)"),
              HasSubstr("\n  0.bias: "), HasSubstr("\n  1.weight: "), HasSubstr("\n  1.bias: "),
              HasSubstr("Give the files of all ranks"), HasSubstr("--drop-objects")));
  }
  EXPECT_TRUE(std::filesystem::is_empty(temp.path()));
}

TEST(ConvertShardsTest, WhatOneFileHoldsWholeBecomesFullThere) {
  const TempFolder temp;
  const std::string file = ranks_of("hsdp", 4)[3];
  const ConvertResult result =
      convert(file, temp / "out.safetensors", {.include = {"copies", "plain"}});
  EXPECT_EQ(result.gathered, 1U);
  const Value full = read(kShardFiles + "hsdp-full.pt");
  EXPECT_EQ(read(temp / "out.safetensors").at("copies"), full.at("copies"));
}

TEST(ConvertShardsTest, WithDropObjectsTheRestIsWrittenAndTheObjectsAreNamed) {
  const TempFolder temp;
  const ConvertResult result =
      convert(ranks_of("hsdp", 4)[0], temp / "out.safetensors", {.drop_objects = true});
  EXPECT_EQ(result.dropped.size(), 6U);
  EXPECT_EQ(result.dropped.front(), std::pair("rows"s, "torch.distributed.tensor.DTensor"s));
  EXPECT_THAT(testing::keys_of(read(temp / "out.safetensors")),
              ::testing::UnorderedElementsAre("copies", "scalar", "plain"));
}

// --- Other objects that hold tensors -------------------------------------------------------------

TEST(LostTensorsTest, ObjectsOfEveryKindAreRefusedWithTheirClass) {
  const TempFolder temp;
  const std::vector<std::pair<std::string, std::string>> files = {
      {kObjects + "subclass.pt", ".Sub"},
      {kObjects + "wrapper.pt", "Two"},
      {kObjects + "nested_strided.pt", "torch._utils._rebuild_nested_tensor"},
      {kObjects + "nested_jagged.pt", "NestedTensor"},
      {kData + "/torch-2.14/whole_module.pt", "torch.nn.modules"}};
  for (const auto& [file, name] : files) {
    EXPECT_THAT(refusal<UnsupportedError>({file}, temp / "out.safetensors"), HasSubstr(name))
        << file;
    const ConvertResult kept = convert(file, temp / "kept.pt", {.overwrite = true});
    EXPECT_THAT(kept.objects, ::testing::Not(::testing::IsEmpty())) << file;
  }
}

TEST(LostTensorsTest, AnObjectWithoutTensorsIsLeftOutAndNamed) {
  const TempFolder temp;
  const Value object(std::make_shared<const Foreign>(Foreign{.module = "os", .name = "system"}));
  save(Dict{{"w", floats({1})}, {"call", object}}, temp / "in.pt");
  EXPECT_THAT(convert(temp / "in.pt", temp / "out.safetensors").left_out, ElementsAre("call"));
}

TEST(LostTensorsTest, AFileThatIsOneObjectWithoutTensorsIsRefusedWithItsClass) {
  const TempFolder temp;
  EXPECT_THAT(refusal<UnsupportedError>({kObjects + "training_args.bin"}, temp / "o.safetensors"),
              HasSubstr("transformers.training_args.TrainingArguments"));
}

Value object_with(Value attributes) {
  const Value name(std::make_shared<const Foreign>(Foreign{.module = "models", .name = "Net"}));
  return Value(std::make_shared<const Foreign>(Foreign{.made = Foreign::Made::kNew,
                                                       .function = name,
                                                       .args = Tuple{},
                                                       .state = std::move(attributes),
                                                       .has_state = true}));
}

TEST(LostTensorsTest, AnObjectWhoseTensorsAreAllWrittenAnywayLosesNone) {
  const TempFolder temp;
  const Value w = floats({1, 2});
  save(Dict{{"w", w}, {"object", object_with(Dict{{"weight", w}})}}, temp / "in.pt");
  EXPECT_THAT(convert(temp / "in.pt", temp / "out.safetensors").left_out, ElementsAre("object"));
}

TEST(LostTensorsTest, SetsKeysAndAttributesLoseNoTensorEither) {
  const TempFolder temp;
  Dict attributed = Dict::ordered({{"w", floats({1})}});
  attributed.set_attributes(Dict{{"kept", floats({2})}});
  save(Dict{{"set", Set{{floats({3})}}},
            {"keys", Dict{{floats({4}), 1}}},
            {"state", attributed},
            {"list", List{object_with(Dict{{"w", floats({5})}})}}},
       temp / "in.pt");
  EXPECT_THAT(refusal<UnsupportedError>({temp / "in.pt"}, temp / "out.safetensors"),
              AllOf(HasSubstr("\n  set: set"), HasSubstr("\n  keys/tensor (key): tensor"),
                    HasSubstr("\n  state/__dict__: dict"), HasSubstr("\n  list/0: models.Net")));
  const ConvertResult result =
      convert(temp / "in.pt", temp / "out.safetensors", {.drop_objects = true});
  EXPECT_EQ(result.dropped.size(), 4U);
  EXPECT_EQ(result.tensors, 1U);
}

TEST(LostTensorsTest, ADcpFolderKeepsObjectsAndLosesNoAttributesOfDicts) {
  const TempFolder temp;
  save(Dict{{"net", object_with(Dict{{"w", floats({5})}})}}, temp / "objects.pt");
  convert(temp / "objects.pt", temp / "objects/");
  Dict attributed = Dict::ordered({{"w", floats({1})}});
  attributed.set_attributes(Dict{{"kept", floats({2})}});
  save(Dict{{"state", attributed}}, temp / "in.pt");
  EXPECT_THAT(refusal<UnsupportedError>({temp / "in.pt"}, temp / "out/"),
              HasSubstr("\n  state/__dict__: dict"));
}

}  // namespace
}  // namespace cairn
