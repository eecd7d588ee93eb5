// Pickles that were made to hurt. Each has one right answer.
#include <gtest/gtest.h>

#include "cairn/error.h"
#include "cairn/format/torch_file.h"

#include "tests/format/pickle_text.h"

namespace cairn {
namespace {

using testing::float_storage;
using testing::global;
using testing::int32;
using testing::int64;
using testing::pickle;
using testing::repeated;
using testing::shared;
using testing::storage;
using testing::tensor;
using testing::torch_file_of;
using testing::unicode;
using namespace std::string_literals;

enum class Answer { kRead, kCorrupt, kUnsupported };

struct Case {
  const char* name;
  std::string pickle;
  Answer answer;
};

// Keeps the failure's message readable: the pickle may have megabytes.
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// 40 dicts or lists, each holding the one before twice: 2^40 items for who walks it as a tree.
std::string billion_laughs() {
  std::string body = "]q\0"s;
  for (int i = 1; i <= 40; ++i) {
    const std::string last = "h"s + static_cast<char>(i - 1);
    body += "](" + last + last + "e" + "q"s + static_cast<char>(i);
  }
  return pickle("(" + body + "l");
}

// The same with tuples, and the last one as a dict key, which has to be hashed.
std::string billion_laughs_key() {
  std::string body = "}K\1q\0"s;
  for (int i = 1; i <= 40; ++i) {
    const std::string last = "h"s + static_cast<char>(i - 1);
    body += "0" + last + last + "\x86q"s + static_cast<char>(i);
  }
  return pickle(body + "Ns");
}

std::string shared_text(std::size_t size, std::size_t uses) {
  return pickle("](" + unicode(std::string(size, 'x')) + "q\1"s + repeated("h\1"s, uses) + "e");
}

std::string copied_list(std::size_t items, std::size_t copies) {
  return pickle("]((" + repeated("N", items) + "t\x85q\1"s + "(" +
                repeated(global("__builtin__", "set") + "h\1R"s, copies) + "1e");
}

std::vector<Case> machine_cases() {
  return {
      {"Empty", "", Answer::kCorrupt},
      {"NoStop", "\x80\2N", Answer::kCorrupt},
      {"NoProto", "N.", Answer::kRead},
      {"Protocol4WithPlainOpcodes", "\x80\4N.", Answer::kRead},
      {"Protocol6", "\x80\6N.", Answer::kUnsupported},
      {"Protocol200", "\x80\xc8N.", Answer::kUnsupported},
      {"BytesAfterStop", pickle("N") + "junk", Answer::kRead},
      {"TwoObjects", pickle("NN"), Answer::kCorrupt},
      {"OpenMark", pickle("N("), Answer::kCorrupt},
      {"EmptyStack", pickle(""), Answer::kCorrupt},
      {"AppendsWithoutMark", pickle("]e"), Answer::kCorrupt},
      {"AppendToNothing", pickle("N0a"), Answer::kCorrupt},
      {"AppendToDict", pickle("}Na"), Answer::kCorrupt},
      {"AppendToTuple", pickle(")Na"), Answer::kCorrupt},
      {"AppendToText", pickle(unicode("a") + "Na"), Answer::kCorrupt},
      {"OddSetItems", pickle("}(Nu"), Answer::kCorrupt},
      {"OddDict", pickle("(Nd"), Answer::kCorrupt},
      {"SetItemOnList", pickle("]NNs"), Answer::kCorrupt},
      {"PopsBelowMark", pickle("N(0t"), Answer::kCorrupt},
      {"TupleBelowMark", pickle("NN(\x86t"), Answer::kCorrupt},
      {"UnhashableKey", pickle("}]Ns"), Answer::kCorrupt},
      {"UnhashableKeyInTuple", pickle("}]\x85Ns"), Answer::kCorrupt},
      {"UnhashableSetItem", pickle(global("__builtin__", "set") + "(]l\x85R"), Answer::kCorrupt},
  };
}

std::vector<Case> operand_cases() {
  return {
      {"UnsetMemo", pickle("h\5"s), Answer::kCorrupt},
      {"UnsetLongMemo", pickle("j\5\0\0\0"s), Answer::kCorrupt},
      {"HugeMemoIndex", pickle("Nr\xff\xff\xff\xff"), Answer::kCorrupt},
      {"MemoOfNothing", pickle("q\0"s), Answer::kCorrupt},
      {"UnicodeOf4GiB",
       pickle("X\xff\xff\xff\xff"
              "abc"),
       Answer::kCorrupt},
      {"Unicode8OfExabytes",
       pickle("\x8d\xff\xff\xff\xff\xff\xff\xff\x7f"
              "abc"),
       Answer::kCorrupt},
      {"BytesOf4GiB",
       pickle("B\xff\xff\xff\xff"
              "abc"),
       Answer::kCorrupt},
      {"ByteArrayOfExabytes",
       pickle("\x96\xff\xff\xff\xff\xff\xff\xff\xff"
              "abc"),
       Answer::kCorrupt},
      {"NegativeBinString",
       pickle("T\xff\xff\xff\xff"
              "abc"),
       Answer::kCorrupt},
      {"InvalidUtf8", pickle(unicode("\xff\xfe")), Answer::kCorrupt},
      {"OverlongUtf8", pickle(unicode("\xc0\x80")), Answer::kCorrupt},
      {"CutOffUtf8", pickle(unicode("\xe6\x97")), Answer::kCorrupt},
      {"CharacterBeyondUnicode", pickle(unicode("\xf4\x90\x80\x80")), Answer::kCorrupt},
      {"LoneSurrogate", pickle(unicode("\xed\xa0\x80")), Answer::kRead},
      {"Long1OfLengthZero", pickle("\x8a\0"s), Answer::kRead},
      {"Long4Negative", pickle("\x8b\xff\xff\xff\xff"), Answer::kCorrupt},
      {"Long4OfGigabytes", pickle("\x8b\xff\xff\xff\x7f"), Answer::kCorrupt},
      {"FrameBeyondEnd", "\x80\4\x95\xff\xff\xff\xff\xff\xff\xff\xffN.", Answer::kCorrupt},
      {"UnknownOpcode", pickle("\xff"), Answer::kCorrupt},
      {"ProtocolZero",
       "(dp0\nVw\\u00e9\np1\n(lp2\nI1\naI01\naL-7L\naF1e3\naS'a\\x00\\n'\nasg1\nNs.",
       Answer::kRead},
      {"TextIntOfNothing", "I\n.", Answer::kCorrupt},
      {"TextIntOfWords", "Ione\n.", Answer::kCorrupt},
      {"TextIntOfTwoSigns", "I--1\n.", Answer::kCorrupt},
      {"TextIntWithoutLineFeed", "I1", Answer::kCorrupt},
      {"TextIntBeyond64Bits", "L99999999999999999999L\n.", Answer::kUnsupported},
      {"TextFloatOfWords", "Fone\n.", Answer::kCorrupt},
      {"TextStrWithoutQuotes", "Sa\n.", Answer::kCorrupt},
      {"TextStrWithHalfAnEscape", "S'\\x0'\n.", Answer::kCorrupt},
      {"TextUnicodeWithHalfAnEscape", "V\\u00\n.", Answer::kCorrupt},
      {"TextUnicodeBeyondUnicode", "V\\U00110000\n.", Answer::kCorrupt},
      {"TextPutOfWords", "Npone\n.", Answer::kCorrupt},
      {"TextPutBeyondThePickle", "Np99999999\n.", Answer::kCorrupt},
      {"TextGetOfNothing", "g1\n.", Answer::kCorrupt},
      {"PersId", pickle("Px\n"), Answer::kUnsupported},
      {"Inst", pickle("(ios\nsystem\n"), Answer::kUnsupported},
      {"Extension", pickle("\x82\1"), Answer::kUnsupported},
      {"NextBuffer", pickle("\x97"), Answer::kUnsupported},
  };
}

std::vector<Case> size_cases() {
  return {
      {"MillionMarks", pickle(repeated("(", 1'000'000)), Answer::kCorrupt},
      {"VeryDeepLists", pickle(repeated("]", 200'000) + repeated("a", 199'999)), Answer::kCorrupt},
      {"VeryDeepTuples", pickle(")" + repeated("\x85", 200'000)), Answer::kCorrupt},
      {"VeryDeepDicts", pickle(repeated("}N", 200'000) + "N" + repeated("s", 200'000)),
       Answer::kCorrupt},
      {"ThousandNestedLists", pickle(repeated("]", 1000) + repeated("a", 999)), Answer::kRead},
      {"ThousandAndOneNestedLists", pickle(repeated("]", 1001) + repeated("a", 1000)),
       Answer::kCorrupt},
      {"ListInItself", pickle("]q\0h\0a"s), Answer::kCorrupt},
      {"DictInItself", pickle("}q\0Nh\0s"s), Answer::kCorrupt},
      {"CycleThroughTuple",
       pickle("]q\0h\0\x85"
              "a"s),
       Answer::kCorrupt},
      {"BillionLaughs", billion_laughs(), Answer::kCorrupt},
      {"BillionLaughsAsKey", billion_laughs_key(), Answer::kCorrupt},
      {"MegabyteTextSharedAFewTimes", shared_text(1 << 20, 20), Answer::kRead},
      {"MegabyteTextSharedAThousandTimes", shared_text(1 << 20, 1000), Answer::kCorrupt},
      {"MegabyteListCopiedAThousandTimes", copied_list(1 << 20, 1000), Answer::kCorrupt},
      {"DuplicateKeys", pickle("}(K\1NK\1\x88u"), Answer::kRead},
  };
}

std::vector<Case> global_cases() {
  return {
      {"OsSystem", pickle(global("os", "system") + unicode("true") + "\x85R"),
       Answer::kUnsupported},
      {"PosixSystem", pickle(global("posix", "system")), Answer::kUnsupported},
      {"BuiltinEval", pickle(global("__builtin__", "eval")), Answer::kUnsupported},
      {"Getattr", pickle(global("__builtin__", "getattr")), Answer::kUnsupported},
      {"StackGlobal", pickle(unicode("os") + unicode("system") + "\x93"), Answer::kUnsupported},
      {"StackGlobalOfNumbers", pickle("NN\x93"), Answer::kCorrupt},
      {"GlobalWithoutLineFeed", "\x80\2cos", Answer::kCorrupt},
      {"ByteArrayOf16GiB",
       pickle(global("__builtin__", "bytearray") + int64(std::int64_t{1} << 34) + "\x85R"),
       Answer::kCorrupt},
      {"FloatTensorClass", pickle(global("torch", "FloatTensor")), Answer::kUnsupported},
      {"UInt16Storage", pickle(global("torch", "UInt16Storage")), Answer::kUnsupported},
      {"EvilFloatStorage", pickle(global("evil", "FloatStorage")), Answer::kUnsupported},
      {"CallOfNumber", pickle("N)R"), Answer::kUnsupported},
      {"CallOfDType", pickle(global("torch", "float32") + ")R"), Answer::kUnsupported},
      {"CallOfTensorClass", pickle(global("torch", "Tensor") + ")R"), Answer::kUnsupported},
      {"ArgumentsThatAreNoTuple", pickle(global("torch", "Size") + "]R"), Answer::kCorrupt},
      {"MissingArguments", pickle(global("torch", "Size") + ")R"), Answer::kCorrupt},
      {"SizeOfText", pickle(global("torch", "Size") + unicode("12") + "\x85R"), Answer::kCorrupt},
      {"ClassAsValue", pickle(global("torch", "Tensor")), Answer::kUnsupported},
      {"BareStorage", pickle(float_storage()), Answer::kUnsupported},
      {"StateOfList", pickle("]Nb"), Answer::kUnsupported},
      {"StateOfTensor", pickle(tensor(float_storage() + "K\0K\4\x85K\1\x85"s) + "}b"),
       Answer::kUnsupported},
      {"EncodeOfUtf16",
       pickle(global("_codecs", "encode") + unicode("a") + unicode("utf-16") + "\x86R"),
       Answer::kUnsupported},
      {"EncodeOfWideCharacter",
       pickle(global("_codecs", "encode") + unicode("\xe6\x97\xa5") + unicode("latin1") + "\x86R"),
       Answer::kCorrupt},
      {"TimedeltaOutOfRange",
       pickle(global("datetime", "timedelta") + int64(std::int64_t{1} << 62) + "\x85R"),
       Answer::kCorrupt},
      {"NumpyObjectArray", pickle(global("numpy", "dtype") + unicode("O8") + "\x89\x88\x87R"),
       Answer::kUnsupported},
      {"NumpyScalarOfWrongSize",
       pickle(global("numpy.core.multiarray", "scalar") + global("numpy", "dtype") + unicode("f8") +
              "\x89\x88\x87R" + "C\4abcd" + "\x86R"),
       Answer::kCorrupt},
      {"NewObjExWithKeywords",
       pickle(global("torch", "Size") + ")\x85}(" + unicode("a") + "Nu\x92"), Answer::kUnsupported},
  };
}

std::vector<Case> storage_cases() {
  const std::string place = "K\0K\4\x85K\1\x85"s;  // offset 0, size (4,), stride (1,)
  const std::string float_class = global("torch", "FloatStorage");
  return {
      {"Tensor", pickle(tensor(float_storage() + place)), Answer::kRead},
      {"HooksNone",
       pickle(global("torch._utils", "_rebuild_tensor_v2") + "(" + float_storage() + place +
              "\x89NtR"),
       Answer::kRead},
      {"PersistentIdIsText", pickle(unicode("0") + "Q"), Answer::kCorrupt},
      {"PersistentIdOfWrongLength", pickle("(" + unicode("storage") + float_class + "tQ"),
       Answer::kCorrupt},
      {"PersistentIdOfModule",
       pickle("(" + unicode("module") + float_class + unicode("0") + unicode("cpu") + "K\4tQ"s),
       Answer::kCorrupt},
      {"StorageKeyIsInt",
       pickle("(" + unicode("storage") + float_class + "K\0"s + unicode("cpu") + "K\4tQ"s),
       Answer::kCorrupt},
      {"StorageKeyIsPath", pickle(tensor(storage(float_class, "../version", "K\4"s) + place)),
       Answer::kCorrupt},
      {"RecordTooShort", pickle(tensor(float_storage("K\5"s) + place)), Answer::kCorrupt},
      {"RecordTooLong", pickle(tensor(float_storage("K\3"s) + "K\0K\3\x85K\1\x85"s)),
       Answer::kCorrupt},
      {"MissingRecord", pickle(tensor(storage(float_class, "7", "K\4"s) + place)),
       Answer::kCorrupt},
      {"NegativeNumel", pickle(tensor(float_storage(int32(-1)) + place)), Answer::kCorrupt},
      {"HugeNumel", pickle(tensor(float_storage(int64(std::int64_t{1} << 62)) + place)),
       Answer::kCorrupt},
      {"NumelBeyondInt64", pickle(tensor(float_storage("\x8a\x09\0\0\0\0\0\0\0\0\1"s) + place)),
       Answer::kCorrupt},
      {"NumelIsBool", pickle(tensor(float_storage("\x88") + place)), Answer::kCorrupt},
      {"NumelIsFloat", pickle(tensor(float_storage("G@\x10\0\0\0\0\0\0"s) + place)),
       Answer::kCorrupt},
      {"SameKeyOtherDType",
       pickle("](" + tensor(float_storage() + place) +
              tensor(storage(global("torch", "IntStorage"), "0", "K\4"s) + place) + "e"),
       Answer::kCorrupt},
  };
}

std::vector<Case> tensor_cases() {
  const std::string place = "K\0K\4\x85K\1\x85"s;  // offset 0, size (4,), stride (1,)
  const std::string huge = int64(std::int64_t{1} << 60);
  return {
      {"OffsetPastTheEnd", pickle(tensor(float_storage() + "K\1K\4\x85K\1\x85"s)),
       Answer::kCorrupt},
      {"StridePastTheEnd", pickle(tensor(float_storage() + "K\0K\4\x85K\2\x85"s)),
       Answer::kCorrupt},
      {"NegativeOffset", pickle(tensor(float_storage() + int32(-1) + "K\4\x85K\1\x85"s)),
       Answer::kCorrupt},
      {"NegativeStride", pickle(tensor(float_storage() + "K\3K\4\x85"s + int32(-1) + "\x85")),
       Answer::kCorrupt},
      {"NegativeSize", pickle(tensor(float_storage() + "K\0"s + int32(-4) + "\x85K\1\x85"s)),
       Answer::kCorrupt},
      {"SizeAndStrideDifferInLength", pickle(tensor(float_storage() + "K\0K\2K\2\x86K\1\x85"s)),
       Answer::kCorrupt},
      {"NumelOverflow", pickle(tensor(float_storage() + "K\0"s + huge + huge + "\x86K\0K\0\x86"s)),
       Answer::kCorrupt},
      {"StrideOverflow",
       pickle(tensor(float_storage() + "K\0"s + huge + huge + "\x86" + huge + huge + "\x86")),
       Answer::kCorrupt},
      {"HugeExpandedTensor", pickle(tensor(float_storage() + "K\0"s + huge + "\x85K\0\x85"s)),
       Answer::kRead},
      {"EmptyTensorWithOffsetPastTheEnd", pickle(tensor(float_storage() + "K\x63K\0\x85K\1\x85"s)),
       Answer::kRead},
      {"RequiresGradOnIntegers",
       pickle(global("torch._utils", "_rebuild_tensor_v2") + "(" +
              storage(global("torch", "IntStorage"), "0", "K\4"s) + place + "\x88NtR"),
       Answer::kCorrupt},
      {"UntypedStorageWithoutDType",
       pickle(tensor(storage(global("torch.storage", "UntypedStorage"), "0", "K\x10"s) + place)),
       Answer::kCorrupt},
      {"TensorOfText", pickle(tensor(unicode("0") + place)), Answer::kCorrupt},
      {"SizeOfFloats", pickle(tensor(float_storage() + "K\0G@\x10\0\0\0\0\0\0\x85K\1\x85"s)),
       Answer::kCorrupt},
      {"SubclassOfTensor",
       pickle(global("torch._tensor", "_rebuild_from_type_v2") + "(" +
              global("torch._utils", "_rebuild_tensor_v2") + global("evil", "Tensor") + "(" +
              float_storage() + place + "\x89Nt}tR"),
       Answer::kUnsupported},
      {"RebuildOfRebuild",
       pickle(global("torch._tensor", "_rebuild_from_type_v2") + "(" +
              global("torch._tensor", "_rebuild_from_type_v2") + global("torch", "Tensor") +
              ")}tR"),
       Answer::kUnsupported},
      {"ConjugatedIntegers",
       pickle(global("torch._utils", "_rebuild_tensor_v2") + "(" +
              storage(global("torch", "IntStorage"), "0", "K\4"s) + place + "\x89N}" +
              unicode("conj") + "\x88stR"),
       Answer::kUnsupported},
      {"ConjugatedThousandTimes",
       pickle("](" +
              repeated(global("torch._utils", "_rebuild_tensor_v2") + "(" +
                           float_storage("M\x90\xd0"s) + place + "\x89N}" + unicode("neg") +
                           "\x88stR",
                       100'000) +
              "e"),
       Answer::kCorrupt},
  };
}

// torch._utils._rebuild_sparse_tensor(layout, parts)
std::string sparse(const std::string& layout, const std::string& parts) {
  return pickle(global("torch._utils", "_rebuild_sparse_tensor") + unicode(layout) + parts +
                "\x86R");
}

std::string longs(const std::string& place) {
  return tensor(storage(global("torch", "LongStorage"), "0", "K\2"s) + place);
}

std::string quantized(const std::string& type, const std::string& quantizer) {
  return global("torch._utils", "_rebuild_qtensor") + "(" +
         storage(global("torch", type), "0", "K\4"s) + "K\0K\4\x85K\1\x85"s + quantizer + "\x89NtR";
}

std::vector<Case> kind_cases() {
  const std::string two_indices = longs("K\0K\1K\2\x86K\2K\1\x86"s);
  const std::string values =
      tensor(storage(global("torch", "FloatStorage"), "0", "K\4"s) + "K\0K\2\x85K\1\x85"s);
  const std::string affine = global("torch", "per_tensor_affine") + "K\1K\0\x87"s;
  std::string nested = quantized("QInt32Storage", affine);
  nested = quantized("QInt32Storage",
                     "(" + global("torch", "per_channel_affine") + nested + nested + "K\0t"s);
  return {
      {"SparseOfUnknownLayout", sparse("torch.strided", ")"), Answer::kUnsupported},
      {"SparseWithoutParts", sparse("torch.sparse_coo", ")"), Answer::kCorrupt},
      {"SparseOfTexts", sparse("torch.sparse_coo", unicode("a") + unicode("b") + ")\x87"),
       Answer::kCorrupt},
      {"SparseWithFloatIndices", sparse("torch.sparse_coo", values + values + "K\5\x85\x87"s),
       Answer::kCorrupt},
      {"SparseWithTwoTypesOnOneStorage",
       sparse("torch.sparse_coo", two_indices + values + "K\5\x85\x87"s), Answer::kCorrupt},
      {"SparseCsrOfTwoParts",
       sparse("torch.sparse_csr", two_indices + two_indices + "K\5\x85\x87"s), Answer::kCorrupt},
      {"SparseWithNegativeSize",
       sparse("torch.sparse_coo",
              two_indices + longs("K\0K\2\x85K\1\x85"s) + int32(-5) + "\x85\x87"),
       Answer::kCorrupt},
      {"SparseOfLongs",
       sparse("torch.sparse_coo", two_indices + longs("K\0K\2\x85K\1\x85"s) + "K\5\x85\x87"s),
       Answer::kRead},
      {"Quantized", pickle(quantized("QInt32Storage", affine)), Answer::kRead},
      {"QuantizedFloats", pickle(quantized("FloatStorage", affine)), Answer::kCorrupt},
      {"QuantizedByUnknownScheme", pickle(quantized("QInt32Storage", "NK\1K\0\x87"s)),
       Answer::kUnsupported},
      {"QuantizedByQuantizedScales", pickle(nested), Answer::kCorrupt},
      {"QuantizedWithoutScale",
       pickle(quantized("QInt32Storage", global("torch", "per_tensor_affine") + "\x85")),
       Answer::kCorrupt},
      {"QSchemeAsValue", pickle(global("torch", "per_tensor_affine")), Answer::kUnsupported},
  };
}

class HostilePickleTest : public ::testing::TestWithParam<Case> {};

TEST_P(HostilePickleTest, HasOneRightAnswer) {
  const bool is_long = GetParam().name == "ConjugatedThousandTimes"s;
  const TorchFile file(
      shared(torch_file_of(GetParam().pickle, std::string(is_long ? 4 * 53392 : 16, '\1'))),
      "hostile.pt");
  Answer answer = Answer::kRead;
  std::string message;
  try {
    file.read();
  } catch (const CorruptError& e) {
    answer = Answer::kCorrupt;
    message = e.what();
    const FileRecord& record = *file.find_record("data.pkl");
    EXPECT_EQ(e.file(), "hostile.pt");
    EXPECT_GE(e.offset(), record.offset);
    EXPECT_LE(e.offset(), record.offset + record.size);
  } catch (const UnsupportedError& e) {
    answer = Answer::kUnsupported;
    message = e.what();
  }
  EXPECT_EQ(answer, GetParam().answer) << message;
  if (answer != Answer::kRead) {
    EXPECT_EQ(message.find("hostile.pt: "), 0U) << message;
  }
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Machine, HostilePickleTest, ::testing::ValuesIn(machine_cases()),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Operands, HostilePickleTest, ::testing::ValuesIn(operand_cases()),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Sizes, HostilePickleTest, ::testing::ValuesIn(size_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Storages, HostilePickleTest, ::testing::ValuesIn(storage_cases()),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Globals, HostilePickleTest, ::testing::ValuesIn(global_cases()),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Tensors, HostilePickleTest, ::testing::ValuesIn(tensor_cases()),
                         case_name);

INSTANTIATE_TEST_SUITE_P(Kinds, HostilePickleTest, ::testing::ValuesIn(kind_cases()), case_name);

TEST(HostilePickleTest, RefusalNamesTheGlobal) {
  const TorchFile file(shared(torch_file_of(pickle(global("os", "system")))), "x.pt");
  try {
    file.read();
    FAIL() << "was read";
  } catch (const UnsupportedError& e) {
    EXPECT_NE(std::string(e.what()).find("os.system"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("runs no code"), std::string::npos) << e.what();
  }
}

TEST(HostilePickleTest, LastOfDuplicateKeysWins) {
  const TorchFile file(shared(torch_file_of(pickle("}(K\1NK\1\x88u"))), "x.pt");
  EXPECT_EQ(file.read(), Value(Dict{{1, true}}));
}

}  // namespace
}  // namespace cairn
