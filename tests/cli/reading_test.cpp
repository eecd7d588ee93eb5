// Commands refuse damaged tensors, and files whose tensors show far more bytes than the file holds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/convert.h"
#include "cairn/error.h"

#include "run_tool.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"

namespace cairn::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kData;
using ::testing::Not;
using testing::read_file;
using testing::shared;
using testing::TempFolder;
using testing::write_file;

std::string text_of_weight() { return std::string(4096, 'w') + std::string(4096, 'v'); }

Value two_tensors() {
  return Dict{{"bias", make_tensor(DType::kUInt8, {4}, shared("bias"))},
              {"weight", make_tensor(DType::kUInt8, {8192}, shared(text_of_weight()))}};
}

class ReadingTest : public ::testing::TestWithParam<const char*> {
 protected:
  ReadingTest() {
    save(two_tensors(), folder_ / "good.pt");
    bad_ = folder_ / GetParam();
    if (bad_.ends_with(".pt")) {
      save(two_tensors(), bad_);
    } else {
      cairn::convert(folder_ / "good.pt", bad_);
    }
    const std::string file = std::filesystem::is_directory(bad_) ? bad_ + "/__0_0.distcp" : bad_;
    std::string bytes = read_file(file);
    bytes[bytes.find(text_of_weight()) + 5] ^= 1;
    write_file(file, bytes);
  }

  TempFolder folder_;
  std::string bad_;
};

TEST_P(ReadingTest, EveryCommandThatLooksAtADamagedTensorSaysSoAndMakesNothing) {
  const std::string out = folder_ / "out.pt";
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"extract", bad_, "weight", "-o", out},
           {"extract", bad_, "*", "-o", out},
           {"extract", bad_, "weight", "-o", folder_ / "out.npy"},
           {"dump", bad_},
           {"diff", folder_ / "good.pt", bad_},
           {"diff", bad_, folder_ / "good.pt"},
           {"inspect", "--stats", bad_},
           {"convert", "--quick", bad_, out},
           {"convert", "--quick", bad_, folder_ / "out.safetensors"},
           {"convert", bad_, out}}) {
    const Answer answer = run(command);
    EXPECT_EQ(answer.code, kDamaged) << command.front() << ": " << answer.out;
    EXPECT_THAT(answer.err, HasSubstr("damaged")) << command.front();
    // A convert() to a new file reads the tensors after it has closed the DCP folder, which could
    // name the damaged tensor.
    const bool names_tensor = bad_.ends_with(".pt") || command.front() != "convert";
    EXPECT_TRUE(!names_tensor || answer.err.find("weight") != std::string::npos) << answer.err;
  }
  for (const char* made : {"out.pt", "out.npy", "out.safetensors"}) {
    EXPECT_FALSE(std::filesystem::exists(folder_ / made)) << made;
  }
}

TEST_P(ReadingTest, WhatIsGoodBesideItIsThere) {
  EXPECT_EQ(run({"extract", bad_, "bias", "-o", folder_ / "bias.pt"}).code, kDone);
  EXPECT_EQ(run({"inspect", bad_}).code, kDone) << "no tensor is read";
  EXPECT_EQ(run({"inspect", "--stats", "--tensors", "bias", bad_}).code, kDone);
}

TEST_P(ReadingTest, RawBytesAreGivenByNameAndTheCommandSaysSo) {
  const std::string out = folder_ / "out.pt";
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"extract", "--raw", bad_, "weight", "-o", out},
                                             {"dump", "--raw", bad_},
                                             {"inspect", "--raw", "--stats", bad_},
                                             {"convert", "--raw", bad_, folder_ / "all.pt"}}) {
    const Answer answer = run(command);
    EXPECT_EQ(answer.code, kDone) << command.front() << ": " << answer.err;
    EXPECT_THAT(answer.err, HasSubstr("no tensor was verified")) << command.front();
  }
  const Answer differs = run({"diff", "--raw", folder_ / "good.pt", bad_});
  EXPECT_EQ(differs.code, kNegativeAnswer) << differs.err;
  EXPECT_TRUE(verify(out).ok());
}

INSTANTIATE_TEST_SUITE_P(EveryFormat, ReadingTest,
                         ::testing::Values("bad.pt", "bad.safetensors", "bad/"),
                         [](const auto& tested) {
                           const std::string name = tested.param;
                           return name == "bad/" ? "dcp" : name.substr(name.find('.') + 1);
                         });

// --- Files that show more than they hold --------------------------------------------------------

// `tensors` tensors, each of which shows its four bytes as a MiB or more.
Value repeated(int tensors, std::int64_t mebibytes) {
  Dict dict;
  for (int i = 0; i < tensors; ++i) {
    dict.set("w" + std::to_string(i), TensorView{.dtype = DType::kFloat32,
                                                 .shape = {mebibytes << 18},
                                                 .strides = {0},
                                                 .storage = storage_of(shared("four"))});
  }
  return dict;
}

class RepetitionTest : public ::testing::Test {
 protected:
  std::string saved(const char* name, const Value& value) {
    save(value, folder_ / name);
    return folder_ / name;
  }

  TempFolder folder_;
};

// An example is 50 tensors of stride 0 in a file of 7 KB, which kept `dump` busy for twelve
// minutes.
TEST_F(RepetitionTest, WorkIsInProportionToTheFileHoweverItIsCutIntoTensors) {
  for (const auto& [name, value] :
       std::vector<std::pair<const char*, Value>>{{"50.pt", repeated(50, 1024)},
                                                  {"1.pt", repeated(1, 1024)},
                                                  {"500.pt", repeated(500, 1)},
                                                  {"500.pt.gz", repeated(500, 1)}}) {
    const std::string path = saved(name, value);
    for (const std::vector<std::string>& command :
         std::vector<std::vector<std::string>>{{"dump", path},
                                               {"diff", path, path},
                                               {"inspect", "--stats", path},
                                               {"extract", path, "w*", "-o", folder_ / "out.pt"},
                                               {"convert", path, folder_ / "out.safetensors"},
                                               {"convert", path, folder_ / "out/"}}) {
      const Answer answer = run(command);
      EXPECT_EQ(answer.code, kIncompatible) << name << ", " << command.front();
      EXPECT_THAT(answer.err, HasSubstr("--force")) << name << ", " << command.front();
    }
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out.safetensors"));
    EXPECT_THROW(load(path), UnsupportedError);
    EXPECT_EQ(load(path, {.most_repetition = std::nullopt}).as_dict().size(),
              value.as_dict().size());
    EXPECT_EQ(run({"inspect", path}).code, kDone) << "no tensor is read";
    EXPECT_EQ(run({"verify", "--full", path}).code, kDone) << "each byte of the file, once";
    EXPECT_EQ(run({"convert", "--overwrite", path, folder_ / "same.pt"}).code, kDone)
        << "torch.save holds the storages";
  }
}

TEST_F(RepetitionTest, MoreIsDoneByForce) {
  const std::string path = saved("260.pt", repeated(260, 1));
  EXPECT_EQ(run({"inspect", "--stats", "--force", path}).code, kDone);
  EXPECT_EQ(run({"dump", "--force", path}).code, kDone);
  const std::string out = folder_ / "out.safetensors";
  EXPECT_EQ(run({"convert", "--force", path, out}).code, kDone);
  EXPECT_GT(std::filesystem::file_size(out), std::uint64_t{260} << 20);
  EXPECT_EQ(run({"extract", "--force", path, "w7", "-o", folder_ / "w7.pt"}).code, kDone);
}

TEST_F(RepetitionTest, APartOfAFileIsJudgedByWhatItShows) {
  const std::string path = saved("500.pt", repeated(500, 1));
  EXPECT_EQ(run({"extract", path, "w7", "-o", folder_ / "w7.pt"}).code, kDone);
  EXPECT_EQ(run({"inspect", "--stats", "--tensors", "w7", path}).code, kDone);
  EXPECT_EQ(run({"convert", "--include", "w7", path, folder_ / "w7.safetensors"}).code, kDone);
}

TEST_F(RepetitionTest, WhatPeopleSavePasses) {
  // a mask of 8 examples and 16 heads, as expand() leaves it
  const TensorView mask{.dtype = DType::kBool,
                        .shape = {8, 16, 512, 512},
                        .strides = {0, 0, 512, 1},
                        .storage = storage_of(shared(std::string(512 * 512, '\1')))};
  const TensorView weight =
      make_tensor(DType::kUInt8, {1 << 20}, shared(std::string(1 << 20, 'w')));
  const Value model = Dict{{"mask", mask}, {"embedding", weight}, {"head", weight}};
  const std::string path = saved("model.pt", Dict{{"model", model}, {"ema", model}});
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"dump", path},
                                             {"diff", path, path},
                                             {"inspect", "--stats", path},
                                             {"convert", path, folder_ / "out.safetensors"}}) {
    EXPECT_EQ(run(command).code, kDone) << command.front();
  }
  EXPECT_NO_THROW(load(path));
}

}  // namespace
}  // namespace cairn::cli
