// TorchScript archives. cairn reads the tensors that torch.jit.load finds (NAME.tensors.json, by
// tests/data/write_script.py). From the code, cairn takes only which tensors are weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "cairn/error.h"
#include "cairn/format/torch_file.h"

#include "checkpoint/open/formats/weights.h"
#include "cli/view/content/describe_value.h"
#include "testing/keys.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"
#include "tests/format/pickle_text.h"
#include "tests/format/raw_zip.h"
#include "tests/format/torch_zip.h"

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

// The weights are exactly those of the state_dict, in the same order. Older descriptions are
// ordered alphabetically.
TEST_P(TorchScriptTest, HasTheWeightsOfItsStateDict) {
  using nlohmann::ordered_json;
  const Value weights = script_state_dict(open_script(GetParam()).read_script_weights());
  const auto expected =
      ordered_json::parse(read_file(CAIRN_TEST_DATA "/" + GetParam() + ".tensors.json"));
  std::vector<std::string> names;
  for (const auto& [name, description] : expected.items()) {
    names.push_back(name);
    ASSERT_NE(weights.find(name), nullptr) << name;
    EXPECT_EQ(cli::describe_value(weights.at(name)), json(description)) << name;
  }
  if (std::is_sorted(names.begin(), names.end())) {
    EXPECT_THAT(testing::keys(weights), ::testing::UnorderedElementsAreArray(names));
  } else {
    EXPECT_EQ(testing::keys(weights), names);
  }
}

std::string script_name(const ::testing::TestParamInfo<std::string>& param) {
  std::string name = param.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    All, TorchScriptTest,
    ::testing::Values("torch-1.13/torchscript.pt", "torch-2.6/torchscript.pt",
                      "torch-2.14/torchscript.pt", "torch-1.13/script_kinds.pt",
                      "torch-2.6/script_kinds.pt", "torch-2.14/script_kinds.pt",
                      "torch-1.13/script_weights.pt", "torch-2.14/script_weights.pt",
                      "torch-1.13/script_traced.pt", "torch-2.14/script_traced.pt"),
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
  EXPECT_EQ(file.find_record("code/__torch__.py"), nullptr);
  EXPECT_NE(file.find_record("data.pkl"), nullptr);
  for (const FileRecord& record : file.records()) {
    EXPECT_TRUE(file.matches_crc(record)) << record.name;
  }
}

std::string archive(const std::string& data_pkl, const std::string& constants = ")") {
  return testing::torch_zip({{"data.pkl", pickle(data_pkl)},
                             {"constants/0", std::string(16, '\1')},
                             {"constants.pkl", pickle(constants)},
                             {"version", "3\n"}});
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
  EXPECT_EQ(taken.at("constants"), Value(1));  // an attribute of that name wins
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

// --- Which tensors are weights ----------------------------------------------------------------

TEST(TorchScriptWeightsTest, TensorsThatAreNoWeightsAreAmongTheAttributesOnly) {
  const TorchFile lstm = open_script("torch-1.13/script_weights.pt");
  EXPECT_EQ(lstm.read().at("rnn").at("_flat_weights").as_items().size(), 8U);
  EXPECT_EQ(lstm.read_script_weights().at("rnn").find("_flat_weights"), nullptr);
  const TorchFile traced = open_script("torch-1.13/script_traced.pt");
  EXPECT_EQ(traced.read().at("constants").as_items().size(), 3U);
  EXPECT_EQ(traced.read_script_weights().find("constants"), nullptr);
}

TEST(TorchScriptWeightsTest, AFrozenModuleHasNone) {
  for (const char* version : {"1.13", "2.14"}) {
    const TorchFile file = open_script("torch-"s + version + "/script_frozen.pt");
    EXPECT_FALSE(file.read().at("constants").as_items().empty());
    EXPECT_TRUE(script_state_dict(file.read_script_weights()).as_dict().empty());
  }
}

const std::string kTensor = testing::tensor(testing::float_storage() + "K\0K\4\x85K\1\x85"s);

// Records of an archive whose root is of class __torch__.a.b.C. The root has the tensors a, b and
// c, and in "d" an object of class D with a tensor "w".
std::vector<testing::RawRecord> records_with(const testing::RawRecord& code) {
  const std::string d = global("__torch__.a.b", "D") + ")\x81}" + unicode("w") + kTensor + "sb";
  std::string state = "}(";
  for (const char* name : {"a", "b", "c"}) {
    state += unicode(name) + kTensor;
  }
  return {{.name = "x/data.pkl", .content = pickle(object(state + unicode("d") + d + "u"))},
          {.name = "x/data/0", .content = std::string(16, '\1')},
          {.name = "x/constants.pkl", .content = pickle(")")},
          {.name = "x/version", .content = "3\n"},
          code};
}

Value weights_by(const testing::RawRecord& code) {
  const std::string bytes = testing::RawZip(records_with(code)).bytes();
  return script_state_dict(TorchFile(shared(bytes), "x.pt").read_script_weights());
}

std::vector<std::string> names_by(const std::string& code) {
  return testing::keys(weights_by({.name = "x/code/__torch__/a/b.py", .content = code}));
}

using Names = std::vector<std::string>;

TEST(TorchScriptWeightsTest, AreWhatTheClassListsParametersFirst) {
  EXPECT_EQ(names_by("class C(Module):\n"
                     "  __parameters__ = [\"c\", ]\n"
                     "  __buffers__ = [\"a\", \"gone\", ]\n"
                     "  a : Tensor\n"
                     "  def forward(self: __torch__.a.b.C) -> str:\n"
                     "    return \"__buffers__ = [\\\"b\\\", ]\"\n"
                     "class D(Module):\n"
                     "  __parameters__ = []\n"
                     "  __buffers__ = [\"w\", ]\n"),
            (Names{"c", "a", "d.w"}));
}

TEST(TorchScriptWeightsTest, ObjectsOfClassesThatAreNoModulesHaveNone) {
  EXPECT_EQ(names_by("class C(Module):\n"
                     "  __parameters__ = [\"a\", ]\n"
                     "  __buffers__ = []\n"
                     "class D:\n"
                     "  w : Tensor\n"),
            (Names{"a"}));
}

// Before PyTorch 1.7, every tensor that was no parameter was a buffer. libtorch still reads such
// files in this way.
TEST(TorchScriptWeightsTest, OfAClassThatListsNoBuffersAllTensorsCount) {
  EXPECT_EQ(names_by("class C(Module):\n"
                     "  __parameters__ = [\"c\", ]\n"
                     "class D(Module):\n"
                     "  __parameters__ = [\"w\", ]\n"),
            (Names{"c", "a", "b", "d.w"}));
}

TEST(TorchScriptWeightsTest, WithoutCodeAllTensorsOfModulesCount) {
  EXPECT_EQ(names_by(""), (Names{"a", "b", "c", "d.w"}));
  EXPECT_EQ(names_by("class Other(Module):\n  __parameters__ = []\n  __buffers__ = []\n"),
            (Names{"a", "b", "c", "d.w"}));
  EXPECT_EQ(names_by("\0\xff{[class C(Module):"s), (Names{"a", "b", "c", "d.w"}));
}

TEST(TorchScriptWeightsTest, CompressedCodeIsExpandedWithinReason) {
  const testing::RawRecord deflated = {.name = "x/code/__torch__/a/b.py",
                                       .content = std::string(60, '\0'),
                                       .local_method = 8,
                                       .central_method = 8};
  testing::RawRecord damaged = deflated;
  damaged.expanded_size = 100;
  EXPECT_THROW(weights_by(damaged), CorruptError);
  testing::RawRecord bomb = deflated;
  bomb.expanded_size = 0xF0000000;
  EXPECT_THROW(weights_by(bomb), UnsupportedError);
  testing::RawRecord unknown = deflated;
  unknown.local_method = unknown.central_method = 99;
  EXPECT_THROW(weights_by(unknown), UnsupportedError);
}

TEST(TorchScriptWeightsTest, DamagedCodeIsFoundByItsChecksum) {
  std::string bytes = read_file(CAIRN_TEST_DATA "/torch-1.13/script_weights.pt");
  const std::size_t name = bytes.find("code/__torch__.py");
  ASSERT_NE(name, std::string::npos);
  bytes[name + 300] ^= 1;
  const TorchFile file(shared(bytes), "x.pt");
  EXPECT_NO_THROW(file.read());
  EXPECT_THROW(file.read_script_weights(), CorruptError);
}

TEST(TorchScriptWeightsTest, WhatIsNoModuleHasNone) {
  const TorchFile list(shared(archive("]")), "x.pt");
  EXPECT_THROW(list.read_script_weights(), UnsupportedError);
  const TorchFile cycle(shared(archive(object("}q\0"s + unicode("a") + "h\0s"s))), "x.pt");
  EXPECT_TRUE(cycle.read_script_weights().as_dict().empty());
  // A module that contains itself.
  const std::string loop = global("__torch__.a.b", "C") + ")\x81q\0}"s + unicode("a") + "h\0sb"s;
  EXPECT_THROW(TorchFile(shared(archive(loop)), "x.pt").read_script_weights(), CorruptError);
}

}  // namespace
}  // namespace cairn
