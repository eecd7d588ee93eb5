// TorchScript archives: what torch.jit.load finds in them (NAME.tensors.json, by
// tests/data/write_script.py) is what is read, and their code is left alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "cairn/error.h"
#include "cairn/format/torch_file.h"

#include "cli/describe_value.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"
#include "tests/format/pickle_text.h"

namespace cairn {
namespace {

using nlohmann::json;
using testing::global;
using testing::pickle;
using testing::read_file;
using testing::shared;
using testing::unicode;
using namespace std::string_literals;

TorchFile open_script(const std::string& name) {
  return {shared(read_file(CAIRN_TEST_DATA "/" + name)), name};
}

class TorchScriptTest : public ::testing::TestWithParam<std::string> {};

TEST_P(TorchScriptTest, HasTheTensorsThatPyTorchFinds) {
  const TorchFile file = open_script(GetParam());
  EXPECT_TRUE(file.is_torchscript());
  const Value value = file.read();
  std::map<std::string, const TensorView*> read;
  for (auto [path, tensor] : tensors_of(value)) {
    std::replace(path.begin(), path.end(), '/', '.');
    read[path] = tensor;
  }
  const json expected = json::parse(read_file(CAIRN_TEST_DATA "/" + GetParam() + ".tensors.json"));
  EXPECT_FALSE(expected.empty());
  for (const auto& [path, description] : expected.items()) {
    ASSERT_TRUE(read.contains(path)) << path;
    EXPECT_EQ(cli::describe_value(*read[path]), description) << path;
  }
}

std::string script_name(const ::testing::TestParamInfo<std::string>& param) {
  std::string name = param.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, TorchScriptTest,
                         ::testing::Values("torch-1.13/torchscript.pt", "torch-2.6/torchscript.pt",
                                           "torch-2.14/torchscript.pt",
                                           "torch-1.13/script_kinds.pt",
                                           "torch-2.6/script_kinds.pt",
                                           "torch-2.14/script_kinds.pt"),
                         script_name);

TEST(TorchScriptAttributesTest, KeepTheirTypesAndWhatIsShared) {
  for (const char* version : {"1.13", "2.6", "2.14"}) {
    const Value value = open_script("torch-"s + version + "/script_kinds.pt").read();
    EXPECT_EQ(value.at("names"), Value(List{"a", "b"}));
    EXPECT_EQ(value.at("sizes"), Value(List{1, std::int64_t{1} << 40}));
    EXPECT_EQ(value.at("rates"), Value(List{0.5}));
    EXPECT_EQ(value.at("flags"), Value(List{true, false}));
    EXPECT_EQ(value.at("nothing"), Value(None{}));
    EXPECT_EQ(value.at("pair"), Value(Tuple{{3, "c"}}));
    EXPECT_EQ(value.at("scale"), Value(2.5));
    EXPECT_EQ(value.at("tied").at("weight").as_tensor().storage,
              value.at("inner").at("weight").as_tensor().storage);
  }
}

TEST(TorchScriptAttributesTest, CompressedCodeIsNoRecord) {
  const TorchFile file = open_script("torch-1.13/script_kinds.pt");
  EXPECT_EQ(file.compressed_record(), "script_kinds/code/__torch__.py");
  EXPECT_EQ(file.find_record("code/__torch__.py"), nullptr);
  EXPECT_NE(file.find_record("data.pkl"), nullptr);
  for (const FileRecord& record : file.records()) {
    EXPECT_TRUE(file.matches_crc(record)) << record.name;
  }
}

std::string archive(const std::string& data_pkl, const std::string& constants = ")") {
  testing::StringSink sink;
  zip::Writer zip(sink, "archive");
  zip.add("data.pkl", pickle(data_pkl));
  zip.add("constants/0", std::string(16, '\1'));
  zip.add("constants.pkl", pickle(constants));
  zip.add("version", "3\n");
  zip.finish();
  return sink.text;
}

std::string object(const std::string& state) {
  return global("__torch__.a.b", "C") + ")\x81" + state + "b";
}

Value read_script(const std::string& bytes) { return TorchFile(shared(bytes), "x.pt").read(); }

TEST(TorchScriptAttributesTest, ConstantsOfTheCodeAreBesideTheAttributes) {
  const std::string tensor =
      testing::tensor(testing::float_storage() + "K\0K\4\x85K\1\x85"s) + "\x85";
  const Value value = read_script(archive(object("}"), tensor));
  EXPECT_EQ(value.at("constants").as_items()[0].as_tensor().numel(), 4);
  const Value taken = read_script(archive(object("}" + unicode("constants") + "K\1s"s), tensor));
  EXPECT_EQ(taken.at("constants"), Value(1));  // an attribute of that name stays
}

TEST(TorchScriptAttributesTest, AStateThatIsNoDictIsKept) {
  EXPECT_EQ(read_script(archive(object("K\1K\2\x86"s))),
            Value(Dict{{"__getstate__()", Tuple{{1, 2}}}}));
}

TEST(TorchScriptAttributesTest, ObjectsOfCodeAreOfTorchScriptOnly) {
  EXPECT_TRUE(read_script(testing::torch_file_of(pickle(object("}")))).is_foreign());
  EXPECT_TRUE(read_script(archive(global("__torch__evil", "C") + ")\x81")).is_foreign());
  EXPECT_THROW(read_script(archive(global("__torch__", "C") + "K\1\x85\x81"s)), CorruptError);
  EXPECT_TRUE(
      read_script(archive(global("os", "system") + unicode("true") + "\x85R")).is_foreign());
  EXPECT_THROW(read_script(archive(object("}q\0"s + unicode("self") + "h\0s"s))), CorruptError);
}

}  // namespace
}  // namespace cairn
