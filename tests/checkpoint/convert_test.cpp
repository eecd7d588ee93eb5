// Converting checkpoints. Nothing is lost except what the format cannot hold, and such a loss is
// reported.
#include "cairn/checkpoint/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>

#include "cairn/error.h"
#include "cairn/foreign.h"
#include "cairn/format/safetensors.h"
#include "cairn/format/torch_file.h"

#include "checkpoint/convert/convert_dtype.h"
#include "converted.h"
#include "io/file.h"
#include "testing/file_bytes.h"
#include "testing/keys.h"
#include "testing/message_of.h"
#include "testing/storage_ranges.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"

namespace cairn {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::floats;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kData;
using ::testing::Key;
using testing::keys_of;
using testing::message_of;
using ::testing::Pair;
using testing::read;
using testing::TempFolder;

const std::string kEma = kData + "/composer-0.33/ema/ep2-ba15-rank0.pt";

TEST(ConvertTest, EveryTensorOfACheckpointComesThroughSafetensorsAndBack) {
  const TempFolder temp;
  const ConvertResult there = convert(kEma, temp / "all.safetensors");
  const ConvertResult back = convert(temp / "all.safetensors", temp / "back.pt");
  const Value original = read(kEma);
  const Value returned = read(temp / "back.pt");
  const auto tensors = tensors_of(original);
  EXPECT_EQ(there.format, "safetensors");
  EXPECT_EQ(back.format, "torch");
  EXPECT_EQ(back.tensors, tensors.size());
  for (const auto& [path, tensor] : tensors) {
    std::string name = path;
    std::replace(name.begin(), name.end(), '/', '.');
    EXPECT_EQ(returned.at(name), Value(*tensor)) << name;
  }
  EXPECT_THAT(there.left_out, Contains("state/optimizers/AdamW/param_groups/0/lr"));
  EXPECT_THAT(back.left_out, IsEmpty());
}

// The file changes after its verification: convert() writes only what it verified, or nothing.
TEST(ConvertTest, AFileThatIsWrittenToMeanwhileIsNotConverted) {
  const TempFolder temp;
  const std::string in = temp / "in.pt";
  struct Way {
    std::string out;
    ConvertOptions options = {};
  };
  for (Way& way : std::vector<Way>{{.out = "out.pt"},
                                   {.out = "out.pt.gz"},
                                   {.out = "half.pt", .options = {.dtype = DType::kBFloat16}},
                                   {.out = "out.safetensors"},
                                   {.out = "shards", .options = {.shard_bytes = 4'000'000}},
                                   {.out = "dcp/"}}) {
    save(Dict{{"a", floats(std::vector<float>(1'000'000, 1))},
              {"b", floats(std::vector<float>(1'000'000, 2))}},
         in);
    std::filesystem::last_write_time(in, std::filesystem::file_time_type());
    way.options.on_progress = [&](std::string_view what, std::uint64_t, std::uint64_t) {
      if (what != "writing") return;
      std::fstream file(in, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(6'000'000);
      file << "overwritten";
    };
    EXPECT_THAT(message_of<StorageError>([&] { convert(in, temp / way.out, way.options); }),
                HasSubstr("in.pt was written to since it was opened"))
        << way.out;
    EXPECT_FALSE(std::filesystem::exists(temp / way.out)) << way.out;
    std::filesystem::remove(in);
  }
}

TEST(ConvertTest, TorchToTorchKeepsTheWholeObjectAndWhatTheFileSaysOfItself) {
  const TempFolder temp;
  save(Dict{{"w", floats({1, 2})}, {"epoch", 3}}, temp / "in.pt",
       {.info = {.kind = "full", .run_name = "r"}});
  convert(temp / "in.pt", temp / "out.pt");
  EXPECT_EQ(testing::read_file(temp / "out.pt"), testing::read_file(temp / "in.pt"));
}

TEST(ConvertTest, WeightsOnlyIsTheModelsStateDict) {
  const TempFolder temp;
  const ConvertResult result =
      convert(kEma, temp / "w.safetensors",
              {.weights_only = true, .rename = {{"module.", ""}, {"module.0.", "never"}}});
  const Value weights = read(temp / "w.safetensors");
  const Value model = read(kEma).at("state").at("model");
  EXPECT_EQ(result.tensors, model.as_dict().size());
  for (const auto& [key, value] : model.as_dict()) {
    EXPECT_EQ(weights.at(key.as_str().substr(std::string("module.").size())), value);
  }
  // The input is already weights.
  convert(temp / "w.safetensors", temp / "again.pt", {.weights_only = true});
  EXPECT_EQ(read(temp / "again.pt"), weights);
  save(Dict{{"other", Dict{}}}, temp / "other.pt");
  EXPECT_THROW(convert(temp / "other.pt", temp / "x.pt", {.weights_only = true}), UsageError);
}

TEST(ConvertTest, OptionsOfAModelAreNotItsWeights) {
  const TempFolder temp;
  const Dict options = {{"arch", "resnet"}, {"layers", 50}};
  save(Dict{{"model", options}, {"state_dict", Dict{{"w", floats({3})}}}}, temp / "in.pt");
  EXPECT_EQ(convert(temp / "in.pt", temp / "w.pt", {.weights_only = true}).tensors, 1U);
  EXPECT_EQ(read(temp / "w.pt"), (Dict{{"w", floats({3})}}));
  save(Dict{{"model", options}}, temp / "none.pt");
  EXPECT_THROW(convert(temp / "none.pt", temp / "x.pt", {.weights_only = true}), UsageError);
  EXPECT_FALSE(posix_file_system().stat(temp / "x.pt"));
}

// Current Composer loads only the module names of numpy 2, and old numpy knows only its own module
// names.
TEST(ConvertTest, NumpysModulesKeepTheNamesThatTheFileHad) {
  const TempFolder temp;
  const auto has = [](const std::string& path, const std::string& name) {
    const TorchFile file(testing::file_bytes(posix_file_system(), path), path);
    const SharedBytes pickle = file.bytes_of(*file.find_record("data.pkl"));
    return as_text(pickle.view).find(name) != std::string_view::npos;
  };
  for (const auto& [file, is_new] :
       {std::pair{"composer-0.33/ema/ep0-ba3-rank0.pt", true},
        std::pair{"composer-releases/v0.17.2/ema/ep0-ba3-rank0.pt", false}}) {
    const std::string path = kData + "/" + file;
    convert(path, temp / "out.pt", {.overwrite = true});
    for (const std::string& either : {path, temp / "out.pt"}) {
      EXPECT_EQ(has(either, "numpy._core.multiarray"), is_new) << either;
      EXPECT_EQ(has(either, "numpy.core.multiarray"), !is_new) << either;
    }
  }
}

TEST(ConvertTest, WeightsOfATorchScriptModuleAreItsStateDict) {
  const TempFolder temp;
  for (const std::string version : {"1.13", "2.6", "2.14"}) {
    convert(kData + "/torch-" + version + "/torchscript.pt", temp / "w.pt",
            {.weights_only = true, .overwrite = true});
    EXPECT_THAT(testing::keys(load(temp / "w.pt")),
                ::testing::UnorderedElementsAre("0.weight", "0.bias"));
  }
}

TEST(ConvertTest, WeightsOfATorchScriptModuleAreNoMoreThanItsStateDict) {
  const TempFolder temp;
  for (const char* out : {"w.pt", "w.safetensors"}) {
    convert(kData + "/torch-2.14/script_weights.pt", temp / out, {.weights_only = true});
    const Value weights = load(temp / out);
    EXPECT_EQ(weights.find("rnn._flat_weights.0"), nullptr);
    EXPECT_EQ(weights.find("parts.0.plain"), nullptr);
    EXPECT_NE(weights.find("rnn.weight_ih_l0"), nullptr);
  }
  EXPECT_THAT(message_of([&] {
                convert(kData + "/torch-2.14/script_frozen.pt", temp / "x.pt",
                        {.weights_only = true});
              }),
              ::testing::HasSubstr("no parameters and no buffers"));
}

TEST(ConvertTest, AnyPartOfWhatChangesItsPrecisionCanBeRead) {
  const Value from = Dict{{"f", floats({1, -2, 3.5F, 1e-30F, INFINITY})}};
  for (const DType dtype : {DType::kBFloat16, DType::kFloat64}) {
    const Value to = convert_dtype(from, dtype, {});
    EXPECT_EQ(testing::wrong_range_of(*to.at("f").as_tensor().storage), "");
  }
}

TEST(ConvertTest, FloatingTensorsChangeTheirPrecisionAndNothingElseDoes) {
  const TempFolder temp;
  const auto one = floats({1, -0.0F, 1e-30F, 3e38F, INFINITY, 1.00390625F, 1.01171875F});
  const auto integers = make_tensor(DType::kInt64, {1}, testing::shared("12345678"));
  save(Dict{{"f", one}, {"i", integers}, {"n", 0.1}}, temp / "in.pt");
  convert(temp / "in.pt", temp / "out.pt", {.dtype = DType::kBFloat16});
  const Value out = read(temp / "out.pt");
  const TensorView& converted = out.at("f").as_tensor();
  EXPECT_EQ(converted.dtype, DType::kBFloat16);
  std::array<std::uint16_t, 7> bits{};
  std::memcpy(bits.data(), converted.contiguous_bytes().view.data(), sizeof(bits));
  EXPECT_THAT(bits, ElementsAre(0x3F80, 0x8000, 0x0DA2, 0x7F62, 0x7F80, 0x3F80, 0x3F82));
  EXPECT_EQ(out.at("i"), Value(integers));
  EXPECT_EQ(out.at("n").as_float(), 0.1);
  convert(temp / "out.pt", temp / "wide.safetensors", {.dtype = DType::kFloat32});
  EXPECT_EQ(read(temp / "wide.safetensors").at("f"),
            Value(floats({1, -0.0F, std::bit_cast<float>(0x0DA20000U),
                          std::bit_cast<float>(0x7F620000U), INFINITY, 1, 1.015625F})));
}

TEST(ConvertTest, PartsAreChosenByPatterns) {
  const TempFolder temp;
  save(Dict{{"a", Dict{{"w", floats({1})}, {"b", floats({2})}, {"n", 1}}},
            {"c", List{floats({3}), Dict{{"w", floats({4})}}}}},
       temp / "in.pt");
  convert(temp / "in.pt", temp / "1.pt", {.include = {"a", "c/1/*"}, .exclude = {"*/b"}});
  EXPECT_EQ(read(temp / "1.pt"), Value(Dict{{"a", Dict{{"w", floats({1})}, {"n", 1}}},
                                            {"c", List{Dict{{"w", floats({4})}}}}}));
  const ConvertResult flat = convert(temp / "in.pt", temp / "2.safetensors", {.include = {"*w"}});
  EXPECT_THAT(keys_of(read(temp / "2.safetensors")), ElementsAre("a.w", "c.0.w"));
  EXPECT_THAT(flat.left_out, IsEmpty());
  const auto misspelt = [&] { convert(temp / "in.pt", temp / "3.pt", {.exclude = {"*", "b/*"}}); };
  EXPECT_THROW(misspelt(), UsageError);
  EXPECT_THAT(message_of(misspelt), HasSubstr("'b/*'"));
}

// Lists that each hold the next list twice: few bytes, but more paths than fit into memory. The
// innermost is `part`.
Value doubled(Value part, int times) {
  for (int i = 0; i < times; ++i) {
    part = List{part, part};
  }
  return part;
}

// Each level holds one object twice, as in the file.
void expect_doubled(const Value* level, int times) {
  for (int i = 0; i < times; ++i) {
    ASSERT_EQ(level->as_items()[0].identity(), level->as_items()[1].identity()) << i;
    level = &level->as_items()[0];
  }
}

TEST(ConvertTest, WhatIsOneContainerAtManyPlacesStaysOne) {
  constexpr int kTimes = 16;
  const TempFolder temp;
  save(Dict{{"x", doubled(List{1}, kTimes)}, {"w", floats({1})}}, temp / "in.pt");
  for (const ConvertOptions& options :
       {ConvertOptions{.exclude = {"w"}}, ConvertOptions{.include = {"x", "*/0/1/1/0"}},
        ConvertOptions{.rename = {{"w", "v"}}}}) {
    convert(temp / "in.pt", temp / "out.pt", options);
    const Value out = read(temp / "out.pt");
    expect_doubled(&out.at("x"), kTimes);
    std::filesystem::remove(temp / "out.pt");
  }
  const ConvertResult flat = convert(temp / "in.pt", temp / "out.safetensors");
  std::string first = "x";
  for (int i = 0; i <= kTimes; ++i) {
    first += "/0";
  }
  EXPECT_THAT(flat.left_out, ElementsAre(first));
}

TEST(ConvertTest, OneContainerThatPatternsTakeApartDiffersWhereTheyDo) {
  const TempFolder temp;
  const Value shared = Dict{{"v", 1}, {"w", 2}};
  save(Dict{{"a", shared}, {"b", shared}, {"c", shared}}, temp / "in.pt");
  convert(temp / "in.pt", temp / "out.pt", {.exclude = {"a/v", "[bc]/w"}});
  const Value out = read(temp / "out.pt");
  EXPECT_EQ(out, Value(Dict{{"a", Dict{{"w", 2}}}, {"b", Dict{{"v", 1}}}, {"c", Dict{{"v", 1}}}}));
  EXPECT_EQ(out.at("b").identity(), out.at("c").identity());
}

// A tensor in a container that occurs at two places has a name at each place, and the names are
// tied.
TEST(ConvertTest, TensorsInOneContainerAtTwoPlacesHaveBothNames) {
  const TempFolder temp;
  const Value shared = Dict{{"w", floats({1})}, {"n", List{1}}};
  save(Dict{{"a", shared}, {"b", shared}}, temp / "in.pt");
  const ConvertResult flat = convert(temp / "in.pt", temp / "out.safetensors");
  EXPECT_THAT(flat.tied, ElementsAre(Pair("b.w", "a.w")));
  EXPECT_THAT(flat.left_out, ElementsAre("a/n/0"));
}

TEST(ConvertTest, NamesThatCollideAreRefused) {
  const TempFolder temp;
  save(Dict{{"a", Dict{{"b", floats({1})}}},
            {"a.b", floats({2})},
            {"x.w", floats({3})},
            {"y.w", floats({4})}},
       temp / "in.pt");
  const auto joined = [&] { convert(temp / "in.pt", temp / "out.safetensors"); };
  EXPECT_THROW(joined(), UsageError);
  EXPECT_THAT(message_of(joined), HasSubstr("a.b"));
  EXPECT_THROW(convert(temp / "in.pt", temp / "out.pt", {.rename = {{"x.", "y."}}}), UsageError);
  EXPECT_FALSE(posix_file_system().stat(temp / "out.safetensors").has_value());
}

TEST(ConvertTest, ARenameThatFitsNoNameIsRefused) {
  const TempFolder temp;
  save(Dict{{"model", Dict{{"w", floats({1})}}}, {"epoch", 3}}, temp / "in.pt");
  const auto convert_to = [&](const char* name, const std::string& from) {
    return [&temp, name, from] { convert(temp / "in.pt", temp / name, {.rename = {{from, "x"}}}); };
  };
  for (const char* out : {"out.safetensors", "out.pt", "out/"}) {
    EXPECT_THAT(message_of<UsageError>(convert_to(out, "nomatch")),
                HasSubstr("no tensor's name begins with 'nomatch'"))
        << out;
    EXPECT_FALSE(posix_file_system().stat(temp / out).has_value()) << out;
  }
  EXPECT_THROW(convert_to("out.pt", "epoch")(), UsageError);  // No tensor.
  // In a torch.save file the key is "w".
  EXPECT_THROW(convert_to("out.pt", "model.w")(), UsageError);
  EXPECT_NO_THROW(convert_to("out.pt", "w")());
  EXPECT_NO_THROW(convert_to("out.safetensors", "model.w")());
}

TEST(ConvertTest, TiedTensorsAreWrittenOnceAndTiedAgain) {
  const TempFolder temp;
  const TensorView shared_one = floats({1, 2});
  TensorView part = shared_one;  // Another tensor over the same storage.
  part.shape = {1};
  save(Dict{{"z", shared_one}, {"b", shared_one}, {"part", part}}, temp / "in.pt");
  const ConvertResult result = convert(temp / "in.pt", temp / "out.safetensors");
  EXPECT_THAT(result.tied, ElementsAre(Pair("z", "b")));
  const auto bytes = testing::file_bytes(posix_file_system(), temp / "out.safetensors");
  const SafetensorsFile file(bytes, "out");
  EXPECT_THAT(file.metadata(), ElementsAre(Pair("format", "pt"), Pair("cairn.tied", R"({"z":"b"})"),
                                           Pair("z", "b"), Key("cairn.writer"), Key("cairn.xxh3")));
  EXPECT_THAT(keys_of(file.read()), ElementsAre("b", "part"));
  convert(temp / "out.safetensors", temp / "back.pt");
  const Value back = read(temp / "back.pt");
  EXPECT_EQ(back.at("z").as_tensor().storage, back.at("b").as_tensor().storage);
  EXPECT_EQ(back.at("part"), Value(part));
}

TEST(ConvertTest, ShardsHoldWhatTheyMayAndOpenAsOneCheckpoint) {
  const TempFolder temp;
  save(Dict{{"b", floats({1, 2})},
            {"a", floats({3})},
            {"large", floats({1, 2, 3, 4, 5})},
            {"tied", floats({6})}},
       temp / "in.pt");
  const ConvertResult result = convert(temp / "in.pt", temp / "out", {.shard_bytes = 12});
  ASSERT_EQ(result.files.size(), 4U);
  EXPECT_EQ(result.files[0], temp / "out/model-00001-of-00003.safetensors");
  // Leaves out the lines that cairn adds: the writer and the checksums.
  const std::string index =
      std::regex_replace(testing::read_file(temp / "out/model.safetensors.index.json"),
                         std::regex(" *\"cairn\\.[^\n]*\n"), "");
  EXPECT_EQ(index, R"({
  "metadata": {
    "total_size": 36
  },
  "weight_map": {
    "a": "model-00001-of-00003.safetensors",
    "b": "model-00001-of-00003.safetensors",
    "large": "model-00002-of-00003.safetensors",
    "tied": "model-00003-of-00003.safetensors"
  }
}
)");
  for (const char* name : {"out", "out/model.safetensors.index.json"}) {
    EXPECT_EQ(read(temp / name), read(temp / "in.pt"));
    EXPECT_TRUE(open_source(temp / name)->verify(Verify::kFull).ok());
  }
}

TEST(ConvertTest, ADistributedFolderHoldsTheWholeObject) {
  const TempFolder temp;
  convert(kEma, temp / "out/");
  EXPECT_EQ(read(temp / "out").at("state").at("model"), read(kEma).at("state").at("model"));
  EXPECT_THROW(convert(kEma, temp / "out", {.to = "dcp"}), AlreadyExistsError);
  convert(kData + "/torch-2.14/dtypes.pt", temp / "out", {.to = "dcp", .overwrite = true});
  EXPECT_EQ(read(temp / "out"), read(kData + "/torch-2.14/dtypes.pt"));
}

TEST(ConvertTest, AnExistingOutputIsReplacedOnlyWhenAllowed) {
  const TempFolder temp;
  save(Dict{{"w", floats({1})}}, temp / "in.pt");
  testing::write_file(temp / "out.safetensors", "old");
  EXPECT_THROW(convert(temp / "in.pt", temp / "out.safetensors"), AlreadyExistsError);
  EXPECT_EQ(testing::read_file(temp / "out.safetensors"), "old");
  convert(temp / "in.pt", temp / "out.safetensors", {.overwrite = true});
  EXPECT_EQ(read(temp / "out.safetensors"), read(temp / "in.pt"));

  convert(temp / "in.pt", temp / "shards", {.shard_bytes = 4});
  EXPECT_THROW(convert(temp / "in.pt", temp / "shards", {.shard_bytes = 4}), AlreadyExistsError);
  convert(temp / "in.pt", temp / "shards", {.shard_bytes = 4, .overwrite = true});
  EXPECT_EQ(read(temp / "shards"), read(temp / "in.pt"));
  // A folder that is no checkpoint is never replaced.
  posix_file_system().make_folders(temp / "mine");
  testing::write_file(temp / "mine/letter", "dear");
  EXPECT_THROW(convert(temp / "in.pt", temp / "mine", {.shard_bytes = 4, .overwrite = true}),
               UsageError);
  EXPECT_EQ(testing::read_file(temp / "mine/letter"), "dear");
}

TEST(ConvertTest, WhatLiesBesideACheckpointIsNotReplacedWithIt) {
  const TempFolder temp;
  save(Dict{{"w", floats({1})}}, temp / "in.pt");
  const auto expect_refused = [&](const std::string& out, const ConvertOptions& options,
                                  const std::string& file) {
    testing::write_file(join_path(out, file), "dear");
    const std::string message =
        testing::message_of<UsageError>([&] { convert(temp / "in.pt", out, options); });
    EXPECT_THAT(message, ::testing::HasSubstr("it holds " + file)) << out;
    EXPECT_EQ(testing::read_file(join_path(out, file)), "dear");
    EXPECT_EQ(read(out), read(temp / "in.pt"));
    posix_file_system().remove(join_path(out, file));
    convert(temp / "in.pt", out, options);
  };
  const ConvertOptions shards = {.shard_bytes = 4, .overwrite = true};
  convert(temp / "in.pt", temp / "shards", shards);
  expect_refused(temp / "shards", shards, "config.json");
  const ConvertOptions dcp = {.to = "dcp", .overwrite = true};
  convert(temp / "in.pt", temp / "dcp", dcp);
  expect_refused(temp / "dcp", dcp, "ep0-ba3-rank0.pt");
}

// Files are replaced whatever names the index has for them. A variant of Hugging Face's format has
// such names.
TEST(ConvertTest, WhatAnIndexNamesIsReplacedWithIt) {
  const TempFolder temp;
  save(Dict{{"w", floats({1})}}, temp / "in.pt");
  convert(temp / "in.pt", temp / "out/own.fp16.safetensors");
  testing::write_file(temp / "out/model.safetensors.index.fp16.json",
                      R"({"weight_map": {"w": "own.fp16.safetensors"}})");
  convert(temp / "in.pt", temp / "out", {.shard_bytes = 4, .overwrite = true});
  EXPECT_EQ(read(temp / "out"), read(temp / "in.pt"));
  EXPECT_FALSE(posix_file_system().stat(temp / "out/own.fp16.safetensors"));
}

TEST(ConvertTest, ADamagedInputIsRefusedBeforeAnythingIsWritten) {
  const TempFolder temp;
  save(Dict{{"w", floats({1, 2, 3})}}, temp / "in.pt");
  std::string bytes = testing::read_file(temp / "in.pt");
  const std::vector<float> numbers = {1, 2, 3};
  const std::size_t at = bytes.find(std::string(as_text(std::as_bytes(std::span(numbers)))));
  bytes[at] ^= 1;
  testing::write_file(temp / "in.pt", bytes);
  EXPECT_THROW(convert(temp / "in.pt", temp / "out.safetensors"), CorruptError);
  EXPECT_THAT(posix_file_system().list(temp.path()), ElementsAre("in.pt"));
}

TEST(ConvertTest, AnUnknownTargetNamesThoseThatThereAre) {
  const auto unknown = [] { convert(kEma, "out.pt", {.to = "onnx"}); };
  EXPECT_THROW(unknown(), UsageError);
  EXPECT_THAT(message_of(unknown), HasSubstr("safetensors, dcp, torch"));
}

TEST(ConvertTest, ProgressAddsUpToWhatThereIsToWrite) {
  const TempFolder temp;
  save(Dict{{"w", floats({1, 2, 3})}, {"v", floats({4})}}, temp / "in.pt");
  struct Way {
    std::string out;
    std::uint64_t shard_bytes = 0;
  };
  for (const auto& [out, shard_bytes] : std::vector<Way>{
           {"out.safetensors"}, {"out.pt"}, {"out.pt.tar.gz"}, {"dcp/"}, {"shards", 12}}) {
    std::uint64_t written = 0;
    convert(temp / "in.pt", temp / out,
            {.shard_bytes = shard_bytes,
             .on_progress = [&](std::string_view stage, std::uint64_t more, std::uint64_t total) {
               if (stage != "writing") return;
               written += more;
               EXPECT_EQ(total, 16U);
             }});
    EXPECT_EQ(written, 16U) << out;
  }
}

}  // namespace
}  // namespace cairn
