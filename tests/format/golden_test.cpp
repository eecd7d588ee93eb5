// Compares files that real PyTorch and Composer wrote with their descriptions.
#include <gtest/gtest.h>

#include <filesystem>

#include "cairn/error.h"
#include "cairn/foreign.h"
#include "cairn/format/torch_file.h"

#include "cli/view/content/describe_value.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"

namespace cairn {
namespace {

using cli::describe_value;
using nlohmann::json;
using testing::encoded;
using testing::kData;
using testing::read_file;
using testing::shared;

// A golden file with content that cairn does not read, and a word that the error must contain.
struct Refused {
  const char* name;
  const char* word;
};
constexpr Refused kRefused[] = {
    {"legacy.pt", "legacy"},
};

const Refused* find_refused(const std::string& path) {
  for (const Refused& refused : kRefused) {
    if (path.ends_with(std::string("/") + refused.name)) return &refused;
  }
  return nullptr;
}

// Returns the paths below the data folder of all .pt files that are refused, or of all others.
std::vector<std::string> golden_files(bool refused) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kData)) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".pt") || (find_refused(path) != nullptr) != refused) continue;
    if (!refused && !std::filesystem::exists(path + ".json")) continue;
    found.push_back(path.substr(kData.size() + 1));
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param.substr(0, info.param.size() - 3);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

TorchFile open(const std::string& name) { return {shared(read_file(kData + "/" + name)), name}; }

class GoldenTest : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, IsWhatItsDescriptionSays) {
  const TorchFile file = open(GetParam());
  EXPECT_EQ(describe_value(file.read()),
            json::parse(read_file(kData + "/" + GetParam() + ".json")));
}

TEST_P(GoldenTest, IsTheSameAfterWritingAndReadingAgain) {
  const Value value = open(GetParam()).read();
  const std::string bytes = encoded(value);
  const TorchFile again(shared(bytes), "again.pt");
  EXPECT_EQ(describe_value(again.read()), describe_value(value));
  EXPECT_EQ(encoded(again.read()), bytes);
}

TEST_P(GoldenTest, HasPyTorchsLayoutAndMatchingChecksums) {
  if (GetParam().starts_with("big-endian/")) GTEST_SKIP() << "its zip is by Python's zipfile";
  const TorchFile file = open(GetParam());
  std::uint64_t offset = 0;
  EXPECT_TRUE(file.has_canonical_layout(&offset)) << "differs at " << offset;
  EXPECT_TRUE(file.has_checksums());
  for (const FileRecord& record : file.records()) {
    EXPECT_TRUE(file.matches_crc(record)) << record.name;
    EXPECT_EQ(record.offset % 64, 0U) << record.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest, ::testing::ValuesIn(golden_files(false)), test_name);

class RefusedGoldenTest : public ::testing::TestWithParam<std::string> {};

TEST_P(RefusedGoldenTest, IsRefusedByNameOfWhatItIs) {
  try {
    open(GetParam()).read();
    FAIL() << "was read";
  } catch (const UnsupportedError& e) {
    EXPECT_NE(std::string(e.what()).find(find_refused("/" + GetParam())->word), std::string::npos)
        << e.what();
    EXPECT_EQ(std::string(e.what()).find(GetParam()), 0U) << e.what();
  }
}

INSTANTIATE_TEST_SUITE_P(All, RefusedGoldenTest, ::testing::ValuesIn(golden_files(true)),
                         test_name);

TEST(GoldenFilesTest, AreThere) {
  EXPECT_GE(golden_files(false).size(), 3U * 20 + 4 * 4);
  EXPECT_EQ(golden_files(true).size(), 3U);
}

class ForeignGoldenTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ForeignGoldenTest, ObjectsOfOtherClassesAreNamedAndWrittenAgainAsTheyWere) {
  const Value custom = open(GetParam() + "/custom_class.pt").read();
  const Value module = open(GetParam() + "/whole_module.pt").read();
  EXPECT_TRUE(custom.at("model").at("w").is_tensor());
  EXPECT_EQ(custom.at("cfg").as_foreign().class_name(), "__main__.Custom");
  EXPECT_EQ(custom.at("cfg").as_foreign().state, Value(Dict{{"x", 1}}));
  EXPECT_EQ(module.as_foreign().class_name(), "torch.nn.modules.linear.Linear");
  for (const Value& value : {custom, module}) {
    const TorchFile again(shared(encoded(value)), "again.pt");
    EXPECT_EQ(describe_value(again.read()), describe_value(value));
  }
}

INSTANTIATE_TEST_SUITE_P(All, ForeignGoldenTest,
                         ::testing::Values("torch-1.13", "torch-2.6", "torch-2.14"),
                         [](const auto& version) {
                           return std::string(
                               version.param.find("1.13") != std::string::npos  ? "1_13"
                               : version.param.find("2.6") != std::string::npos ? "2_6"
                                                                                : "2_14");
                         });

// Golden files whose every part a Value can hold. Other golden files become smaller when they are
// written again. Such files have the _metadata of a module's state_dict, lazily conjugated tensors,
// another pickle protocol, or two equal texts that were two objects in Python. tests/python checks
// them against Python itself.
std::vector<std::string> files_with_same_pickle() {
  std::vector<std::string> files = {"torch-1.13/views.pt"};
  for (const char* version : {"1.13", "2.6", "2.14"}) {
    for (const char* name :
         {"dtypes", "many", "parameters", "quantized", "rng_state", "schedulers"}) {
      files.push_back(std::string("torch-") + version + "/" + name + ".pt");
    }
  }
  return files;
}

class SamePickleTest : public ::testing::TestWithParam<std::string> {};

TEST_P(SamePickleTest, AsPyTorchsByteForByte) {
  const TorchFile file = open(GetParam());
  const TorchFile again(shared(encoded(file.read())), "again.pt");
  EXPECT_EQ(as_text(again.bytes_of(*again.find_record("data.pkl")).view),
            as_text(file.bytes_of(*file.find_record("data.pkl")).view));
}

INSTANTIATE_TEST_SUITE_P(All, SamePickleTest, ::testing::ValuesIn(files_with_same_pickle()),
                         test_name);

}  // namespace
}  // namespace cairn
