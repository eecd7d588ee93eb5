// The contents of safetensors files: each check of the reference implementation, what the reference
// tolerates, and what only cairn refuses.
#include "cairn/format/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/error.h"

#include "testing/string_sink.h"
#include "testing/temp_folder.h"
#include "tests/format/safetensors_text.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using testing::safetensors_entry;
using testing::safetensors_file;
using testing::shared;
using namespace std::string_literals;

enum class SafetensorsAnswer { kRead, kCorrupt, kUnsupported };

struct SafetensorsCase {
  const char* name;
  std::string bytes;
  SafetensorsAnswer answer;
};

void PrintTo(const SafetensorsCase& c, std::ostream* out) { *out << c.name; }

// A header with the given members.
std::string header(const std::string& members) { return "{" + members + "}"; }

std::string with(const std::string& members, const std::string& data = "") {
  return safetensors_file(header(members), data);
}

// One byte tensor, "w". The caller may change its header.
const std::string kByte = safetensors_entry("w", "U8", "[1]", "[0,1]");

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return safetensors_entry("w", dtype, shape, offsets);
}

std::string nested(std::size_t depth) {
  return with(R"("w":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"more":)" +
                  std::string(depth, '[') + std::string(depth, ']') + "}",
              "x");
}

std::string sized(std::uint64_t header_size, const std::string& rest) {
  std::string file;
  append_little_endian<std::uint64_t>(file, header_size);
  return file + rest;
}

// Cases for the checks of the reference implementation.
std::vector<SafetensorsCase> checked_cases() {
  constexpr auto kNo = SafetensorsAnswer::kCorrupt;
  const std::string two_to_32 = "4294967296";
  return {
      {"EmptyFile", "", kNo},
      {"HeaderTooSmall", "1234567", kNo},
      {"HeaderTooLarge", sized(100'000'001, header("")), kNo},
      {"HeaderBeyondTheFile", sized(100, header("")), kNo},
      {"HeaderSizeOfAllOnes", sized(~std::uint64_t{0}, header("")), kNo},
      {"NoHeader", safetensors_file(""), kNo},
      {"NotUtf8", with("\"\xff\":" + kByte.substr(4), "x"), kNo},
      {"NotJson", safetensors_file("{'w'}"), kNo},
      {"JsonArray", safetensors_file("[]"), kNo},
      {"CutJson", safetensors_file("{" + kByte), kNo},
      {"TensorIsNumber", with("\"w\":1"), kNo},
      {"ShapeIsNumber", with(entry("U8", "1", "[0,1]"), "x"), kNo},
      {"ShapeOfStrings", with(entry("U8", "[\"1\"]", "[0,1]"), "x"), kNo},
      {"DtypeIsNumber", with(R"("w":{"dtype":1,"shape":[1],"data_offsets":[0,1]})", "x"), kNo},
      {"OneOffset", with(entry("U8", "[1]", "[0]"), "x"), kNo},
      {"ThreeOffsets", with(entry("U8", "[1]", "[0,1,1]"), "x"), kNo},
      {"HoleAtTheStart", with(entry("U8", "[1]", "[1,2]"), "xy"), kNo},
      {"HoleBetween", with(kByte + "," + safetensors_entry("v", "U8", "[1]", "[2,3]"), "xyz"), kNo},
      {"Overlap",
       with(entry("U8", "[2]", "[0,2]") + "," + safetensors_entry("v", "U8", "[2]", "[1,3]"),
            "xyz"),
       kNo},
      {"SameBytesTwice", with(kByte + "," + safetensors_entry("v", "U8", "[1]", "[0,1]"), "x"),
       kNo},
      {"EndBeforeBegin", with(entry("U8", "[1]", "[1,0]"), "x"), kNo},
      {"ShapeOverflows", with(entry("U8", "[" + two_to_32 + "," + two_to_32 + ",0]", "[0,0]")),
       kNo},
      {"BitsOverflow", with(entry("U64", "[2305843009213693952]", "[0,0]")), kNo},
      {"HalfAByte", with(entry("F4", "[1]", "[0,1]"), "x"), kNo},
      {"ScalarOfHalfAByte", with(entry("F4", "[]", "[0,1]"), "x"), kNo},
      {"SixBitsMisaligned", with(entry("F6_E2M3", "[2]", "[0,2]"), "xx"), kNo},
      {"MoreBytesThanElements", with(entry("U8", "[1]", "[0,2]"), "xy"), kNo},
      {"FewerBytesThanElements", with(entry("F32", "[1]", "[0,2]"), "xy"), kNo},
      {"TrailingByte", with(kByte, "xy"), kNo},
      {"MissingByte", with(entry("U8", "[2]", "[0,2]"), "x"), kNo},
      {"DataWithoutTensor", safetensors_file("{}", "x"), kNo},
      {"EndBeyondEverything",
       with(entry("U8", "[18446744073709551615]", "[0,18446744073709551615]"), "x"), kNo},
  };
}

std::vector<SafetensorsCase> tolerated_cases() {
  constexpr auto kYes = SafetensorsAnswer::kRead;
  return {
      {"SpaceBeforeTheHeader", safetensors_file(" \n\t\r{" + kByte + "}", "x"), kYes},
      {"SpaceAfterTheHeader", safetensors_file("{" + kByte + "} \n\t\r", "x"), kYes},
      {"NoTensors", safetensors_file("{}"), kYes},
      {"SpacesBetween",
       with("\"w\" : { \"shape\" : [ 1 ] , \"dtype\" : \"U8\" , \"data_offsets\" : [ 0 , 1 ] }",
            "x"),
       kYes},
      {"UnalignedFloats",
       with(kByte + "," + safetensors_entry("v", "F64", "[1]", "[1,9]"), "x12345678"), kYes},
      {"EmptyTensorsAtOnePlace",
       with(safetensors_entry("a", "F32", "[0]", "[1,1]") + "," + kByte + "," +
                safetensors_entry("b", "F32", "[0,3]", "[0,0]") + "," +
                safetensors_entry("c", "I8", "[0]", "[0,0]"),
            "x"),
       kYes},
      {"Scalar", with(entry("F32", "[]", "[0,4]"), "1234"), kYes},
      {"OtherOrder",
       with(safetensors_entry("b", "U8", "[1]", "[1,2]") + "," +
                safetensors_entry("a", "U8", "[1]", "[0,1]"),
            "ab"),
       kYes},
      {"EmptyName", with(safetensors_entry("", "U8", "[1]", "[0,1]"), "x"), kYes},
      {"NulInAName", with(safetensors_entry("a\\u0000b", "U8", "[1]", "[0,1]"), "x"), kYes},
      {"UnknownFields",
       with(R"("w":{"a":{"b":[1,-2.5e3,true,null,{}]},"dtype":"U8","shape":[1],)"
            R"("c":[],"data_offsets":[0,1],"d":"x"})",
            "x"),
       kYes},
      {"TensorAsArray", with(R"("w":["U8",[1],[0,1]])", "x"), kYes},
      {"MetadataNull", with("\"__metadata__\":null," + kByte, "x"), kYes},
      {"MetadataEmpty", with("\"__metadata__\":{}," + kByte, "x"), kYes},
      {"BoolOtherThanOne", with(entry("BOOL", "[1]", "[0,1]"), "\x07"), kYes},
      {"NestedAsDeepAsAllowed", nested(128), kYes},
  };
}

std::vector<SafetensorsCase> rejected_cases() {
  constexpr auto kNo = SafetensorsAnswer::kCorrupt;
  constexpr auto kOther = SafetensorsAnswer::kUnsupported;
  const std::string lone = "\\ud800";
  return {
      {"NulPadding", safetensors_file("{" + kByte + "}" + std::string(3, '\0'), "x"), kNo},
      {"ByteOrderMark", safetensors_file("\xEF\xBB\xBF{" + kByte + "}", "x"), kNo},
      {"TextAfterTheHeader", safetensors_file("{" + kByte + "}x", "x"), kNo},
      {"MetadataOfNumbers", with("\"__metadata__\":{\"a\":1}," + kByte, "x"), kNo},
      {"MetadataTwice", with("\"__metadata__\":{},\"__metadata__\":{}," + kByte, "x"), kNo},
      {"MetadataKeyTwice", with(R"("__metadata__":{"a":"1","a":"2"},)" + kByte, "x"), kNo},
      {"TensorTwice", with(kByte + "," + kByte, "x"), kNo},
      {"TensorTwiceByAnEscape",
       with(kByte + "," + safetensors_entry("\\u0077", "U8", "[1]", "[0,1]"), "x"), kNo},
      {"FieldTwice",
       with(R"("w":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]})", "x"), kNo},
      {"NoDtype", with(R"("w":{"shape":[1],"data_offsets":[0,1]})", "x"), kNo},
      {"NoShape", with(R"("w":{"dtype":"U8","data_offsets":[0,1]})", "x"), kNo},
      {"NoOffsets", with(R"("w":{"dtype":"U8","shape":[1]})", "x"), kNo},
      {"ShortArray", with(R"("w":["U8",[1]])", "x"), kNo},
      {"LongArray", with(R"("w":["U8",[1],[0,1],1])", "x"), kNo},
      {"Float", with(entry("U8", "[1.0]", "[0,1]"), "x"), kNo},
      {"Exponent", with(entry("U8", "[1e0]", "[0,1]"), "x"), kNo},
      {"LeadingZero", with(entry("U8", "[01]", "[0,1]"), "x"), kNo},
      {"Negative", with(entry("U8", "[-1]", "[0,1]"), "x"), kNo},
      {"TwoToThe64", with(entry("U8", "[18446744073709551616]", "[0,1]"), "x"), kNo},
      {"LoneSurrogate", with(safetensors_entry(lone, "U8", "[1]", "[0,1]"), "x"), kNo},
      {"TwoHighSurrogates", with(safetensors_entry(lone + lone, "U8", "[1]", "[0,1]"), "x"), kNo},
      {"RawControlCharacter", with(safetensors_entry("\n", "U8", "[1]", "[0,1]"), "x"), kNo},
      {"UnknownEscape", with(safetensors_entry("\\x", "U8", "[1]", "[0,1]"), "x"), kNo},
      {"TrailingComma", with(kByte + ",", "x"), kNo},
      {"Comment", with(kByte + "/* */", "x"), kNo},
      {"NestedTooDeep", nested(129), kNo},
      {"UnknownDtype", with(entry("F128", "[1]", "[0,16]"), "0123456789abcdef"), kOther},
      {"SixBitFloats", with(entry("F6_E3M2", "[4]", "[0,3]"), "xyz"), kOther},
      {"OddRowsOfFourBits", with(entry("F4", "[2,3]", "[0,3]"), "xyz"), kOther},
      {"EmptyButEndless", with(entry("U8", "[0,4294967296,4294967296]", "[0,0]")), kOther},
  };
}

class SafetensorsFileTest : public ::testing::TestWithParam<SafetensorsCase> {};

TEST_P(SafetensorsFileTest, IsReadOrRefused) {
  const SafetensorsCase& c = GetParam();
  const auto open = [&] { SafetensorsFile(shared(c.bytes), "hand.safetensors").read(); };
  switch (c.answer) {
    case SafetensorsAnswer::kRead:
      EXPECT_NO_THROW(open());
      break;
    case SafetensorsAnswer::kCorrupt:
      EXPECT_THROW(open(), CorruptError);
      break;
    case SafetensorsAnswer::kUnsupported:
      EXPECT_THROW(open(), UnsupportedError);
      break;
  }
}

std::string safetensors_case_name(const ::testing::TestParamInfo<SafetensorsCase>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Checked, SafetensorsFileTest, ::testing::ValuesIn(checked_cases()),
                         safetensors_case_name);
INSTANTIATE_TEST_SUITE_P(Tolerated, SafetensorsFileTest, ::testing::ValuesIn(tolerated_cases()),
                         safetensors_case_name);
INSTANTIATE_TEST_SUITE_P(Rejected, SafetensorsFileTest, ::testing::ValuesIn(rejected_cases()),
                         safetensors_case_name);

// The tables above are made anew for every test, so these long headers are not in them.
TEST(SafetensorsFileTest, LongHeadersAreRefused) {
  const std::string spaces(100'000'001, ' ');  // NOLINT(bugprone-string-constructor): meant
  for (const std::string& bytes : {sized(spaces.size(), spaces), nested(1'000'000)}) {
    EXPECT_THROW(SafetensorsFile(shared(bytes), "hand.safetensors").read(), CorruptError);
  }
}

TEST(SafetensorsFileTest, EveryDtypeHasPyTorchsName) {
  const std::vector<std::pair<std::string, std::string>> dtypes = {
      {"BOOL", "bool"},
      {"U8", "uint8"},
      {"I8", "int8"},
      {"U16", "uint16"},
      {"I16", "int16"},
      {"U32", "uint32"},
      {"I32", "int32"},
      {"U64", "uint64"},
      {"I64", "int64"},
      {"F16", "float16"},
      {"BF16", "bfloat16"},
      {"F32", "float32"},
      {"F64", "float64"},
      {"C64", "complex64"},
      {"F8_E4M3", "float8_e4m3fn"},
      {"F8_E5M2", "float8_e5m2"},
      {"F8_E8M0", "float8_e8m0fnu"},
      {"F8_E4M3FNUZ", "float8_e4m3fnuz"},
      {"F8_E5M2FNUZ", "float8_e5m2fnuz"},
  };
  for (const auto& [theirs, ours] : dtypes) {
    const std::size_t size = item_size(*find_dtype(ours));
    const std::string bytes =
        with(entry(theirs, "[1]", "[0," + std::to_string(size) + "]"), std::string(size, 'x'));
    const Value value = SafetensorsFile(shared(bytes), "hand.safetensors").read();
    EXPECT_EQ(name(value.at("w").as_tensor().dtype), ours);
  }
}

TEST(SafetensorsFileTest, FourBitNumbersArePairs) {
  const std::string bytes = with(entry("F4", "[2,6]", "[0,6]"), "abcdef");
  const Value value = SafetensorsFile(shared(bytes), "hand.safetensors").read();
  const TensorView& tensor = value.at("w").as_tensor();
  EXPECT_EQ(tensor.dtype, DType::kFloat4E2M1FNx2);
  EXPECT_THAT(tensor.shape, ElementsAre(2, 3));
  EXPECT_EQ(as_text(tensor.contiguous_bytes().view), "abcdef");
}

TEST(SafetensorsFileTest, NamesAndMetadataAreUnescaped) {
  const std::string bytes = with(R"("__metadata__":{"b":"\u00e9\n\"","a":"\ud83d\ude00"},)" +
                                     safetensors_entry("\\u0000\\/\xc3\xa9", "U8", "[1]", "[0,1]"),
                                 "x");
  const SafetensorsFile file(shared(bytes), "hand.safetensors");
  EXPECT_THAT(file.metadata(),
              ElementsAre(Pair("b", "\xc3\xa9\n\""), Pair("a", "\xf0\x9f\x98\x80")));
  EXPECT_EQ(*file.find_metadata("b"), "\xc3\xa9\n\"");
  EXPECT_EQ(file.find_metadata("c"), nullptr);
  ASSERT_EQ(file.entries().size(), 1U);
  EXPECT_EQ(file.entries()[0].name, "\0/\xc3\xa9"s);
}

TEST(SafetensorsFileTest, TensorsAreViewsInTheOrderOfTheirBytes) {
  const auto bytes = shared(with(safetensors_entry("b", "U8", "[1]", "[1,2]") + "," +
                                     safetensors_entry("a", "U8", "[1]", "[0,1]"),
                                 "ab"));
  const SafetensorsFile file(bytes, "hand.safetensors");
  ASSERT_EQ(file.entries().size(), 2U);
  EXPECT_EQ(file.entries()[0].name, "a");
  EXPECT_EQ(file.entries()[0].offset, bytes.view.size() - 2);
  EXPECT_EQ(file.read().at("b").as_tensor().storage->bytes().view.data(),
            bytes.view.data() + bytes.view.size() - 1);
}

TEST(SafetensorsFileTest, ErrorsNameFileTensorAndOffset) {
  const std::string bytes = with(entry("F32", "[3]", "[0,8]"), "12345678");
  try {
    const SafetensorsFile file(shared(bytes), "some/hand.safetensors");
    FAIL();
  } catch (const CorruptError& e) {
    EXPECT_THAT(e.what(), HasSubstr("some/hand.safetensors: tensor \"w\""));
    EXPECT_THAT(e.what(), HasSubstr("12 bytes"));
    EXPECT_EQ(e.file(), "some/hand.safetensors");
    EXPECT_EQ(e.offset(), bytes.find("{\"dtype"));
  }
}

TEST(SafetensorsFileTest, TheExampleOfTheDocumentation) {
  const std::string bytes = testing::read_file(CAIRN_TEST_DATA "/cairn/tiny.safetensors");
  const SafetensorsFile file(shared(bytes), "tiny.safetensors");
  EXPECT_THAT(file.metadata(), ElementsAre(Pair("format", "pt")));
  const std::vector<float> expected = {1, -2};
  EXPECT_EQ(file.read(),
            Value(Dict{{"w", make_tensor(DType::kFloat32, {2},
                                         {std::as_bytes(std::span(expected)), nullptr})}}));
}

}  // namespace
}  // namespace cairn
