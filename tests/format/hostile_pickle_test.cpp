// Hostile pickles, each with one right answer.
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

enum class PickleAnswer { kRead, kCorrupt, kUnsupported };

struct PickleCase {
  const char* name;
  std::string pickle;
  PickleAnswer answer;
  std::string (*make)() = nullptr;  // makes a long pickle in the test that needs it
};

// Prints only the name, to keep messages of failures readable: the pickle may have megabytes.
void PrintTo(const PickleCase& c, std::ostream* out) { *out << c.name; }

// 40 lists, each holding the previous one twice: 2^40 items when walked as a tree.
std::string billion_laughs() {
  std::string body = "]q\0"s;
  for (int i = 1; i <= 40; ++i) {
    const std::string last = "h"s + static_cast<char>(i - 1);
    body += "](" + last + last + "e" + "q"s + static_cast<char>(i);
  }
  return pickle("(" + body + "l");
}

// 40 tuples, each holding the previous one twice. The last tuple is a dict key, which must be
// hashed.
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

// Bytes in a tuple that is the key of `dicts` dicts. The bytes must be hashed for each dict.
std::string bytes_key(std::size_t size, std::size_t dicts) {
  std::string bytes = "B"s;
  append_little_endian(bytes, static_cast<std::uint32_t>(size));
  return pickle("](" + bytes + std::string(size, 'x') + "q\1"s + repeated("}h\1\x85Ns"s, dicts) +
                "e");
}

std::string copied_list(std::size_t items, std::size_t copies) {
  return pickle("]((" + repeated("N", items) + "t\x85q\1"s + "(" +
                repeated(global("__builtin__", "set") + "h\1R"s, copies) + "1e");
}

std::vector<PickleCase> machine_cases() {
  return {
      {"Empty", "", PickleAnswer::kCorrupt},
      {"NoStop", "\x80\2N", PickleAnswer::kCorrupt},
      {"NoProto", "N.", PickleAnswer::kRead},
      {"Protocol4WithPlainOpcodes", "\x80\4N.", PickleAnswer::kRead},
      {"Protocol6", "\x80\6N.", PickleAnswer::kUnsupported},
      {"Protocol200", "\x80\xc8N.", PickleAnswer::kUnsupported},
      {"BytesAfterStop", pickle("N") + "junk", PickleAnswer::kRead},
      {"TwoObjects", pickle("NN"), PickleAnswer::kCorrupt},
      {"OpenMark", pickle("N("), PickleAnswer::kCorrupt},
      {"EmptyStack", pickle(""), PickleAnswer::kCorrupt},
      {"AppendsWithoutMark", pickle("]e"), PickleAnswer::kCorrupt},
      {"AppendToNothing", pickle("N0a"), PickleAnswer::kCorrupt},
      {"AppendToDict", pickle("}Na"), PickleAnswer::kCorrupt},
      {"AppendToTuple", pickle(")Na"), PickleAnswer::kCorrupt},
      {"AppendToText", pickle(unicode("a") + "Na"), PickleAnswer::kCorrupt},
      {"OddSetItems", pickle("}(Nu"), PickleAnswer::kCorrupt},
      {"OddDict", pickle("(Nd"), PickleAnswer::kCorrupt},
      {"SetItemOnList", pickle("]NNs"), PickleAnswer::kCorrupt},
      {"PopsBelowMark", pickle("N(0t"), PickleAnswer::kCorrupt},
      {"TupleBelowMark", pickle("NN(\x86t"), PickleAnswer::kCorrupt},
      {"UnhashableKey", pickle("}]Ns"), PickleAnswer::kCorrupt},
      {"UnhashableKeyInTuple", pickle("}]\x85Ns"), PickleAnswer::kCorrupt},
      {"TensorAsKey", pickle("}" + tensor(float_storage() + "K\0K\4\x85K\1\x85"s) + "Ns"),
       PickleAnswer::kRead},
      {"UnhashableSetItem", pickle(global("__builtin__", "set") + "(]l\x85R"),
       PickleAnswer::kCorrupt},
  };
}

std::vector<PickleCase> operand_cases() {
  return {
      {"UnsetMemo", pickle("h\5"s), PickleAnswer::kCorrupt},
      {"UnsetLongMemo", pickle("j\5\0\0\0"s), PickleAnswer::kCorrupt},
      {"HugeMemoIndex", pickle("Nr\xff\xff\xff\xff"), PickleAnswer::kCorrupt},
      {"MemoOfNothing", pickle("q\0"s), PickleAnswer::kCorrupt},
      {"UnicodeOf4GiB",
       pickle("X\xff\xff\xff\xff"
              "abc"),
       PickleAnswer::kCorrupt},
      {"Unicode8OfExabytes",
       pickle("\x8d\xff\xff\xff\xff\xff\xff\xff\x7f"
              "abc"),
       PickleAnswer::kCorrupt},
      {"BytesOf4GiB",
       pickle("B\xff\xff\xff\xff"
              "abc"),
       PickleAnswer::kCorrupt},
      {"ByteArrayOfExabytes",
       pickle("\x96\xff\xff\xff\xff\xff\xff\xff\xff"
              "abc"),
       PickleAnswer::kCorrupt},
      {"NegativeBinString",
       pickle("T\xff\xff\xff\xff"
              "abc"),
       PickleAnswer::kCorrupt},
      {"InvalidUtf8", pickle(unicode("\xff\xfe")), PickleAnswer::kCorrupt},
      {"OverlongUtf8", pickle(unicode("\xc0\x80")), PickleAnswer::kCorrupt},
      {"CutOffUtf8", pickle(unicode("\xe6\x97")), PickleAnswer::kCorrupt},
      {"CharacterBeyondUnicode", pickle(unicode("\xf4\x90\x80\x80")), PickleAnswer::kCorrupt},
      {"LoneSurrogate", pickle(unicode("\xed\xa0\x80")), PickleAnswer::kRead},
      {"Long1OfLengthZero", pickle("\x8a\0"s), PickleAnswer::kRead},
      {"Long4Negative", pickle("\x8b\xff\xff\xff\xff"), PickleAnswer::kCorrupt},
      {"Long4OfGigabytes", pickle("\x8b\xff\xff\xff\x7f"), PickleAnswer::kCorrupt},
      {"FrameBeyondEnd", "\x80\4\x95\xff\xff\xff\xff\xff\xff\xff\xffN.", PickleAnswer::kCorrupt},
      {"UnknownOpcode", pickle("\xff"), PickleAnswer::kCorrupt},
      {"ProtocolZero",
       "(dp0\nVw\\u00e9\np1\n(lp2\nI1\naI01\naL-7L\naF1e3\naS'a\\x00\\n'\nasg1\nNs.",
       PickleAnswer::kRead},
      {"TextIntOfNothing", "I\n.", PickleAnswer::kCorrupt},
      {"TextIntOfWords", "Ione\n.", PickleAnswer::kCorrupt},
      {"TextIntOfTwoSigns", "I--1\n.", PickleAnswer::kCorrupt},
      {"TextIntWithoutLineFeed", "I1", PickleAnswer::kCorrupt},
      {"TextIntBeyond64Bits", "L99999999999999999999L\n.", PickleAnswer::kUnsupported},
      {"TextFloatOfWords", "Fone\n.", PickleAnswer::kCorrupt},
      {"TextStrWithoutQuotes", "Sa\n.", PickleAnswer::kCorrupt},
      {"TextStrWithHalfAnEscape", "S'\\x0'\n.", PickleAnswer::kCorrupt},
      {"TextUnicodeWithHalfAnEscape", "V\\u00\n.", PickleAnswer::kCorrupt},
      {"TextUnicodeBeyondUnicode", "V\\U00110000\n.", PickleAnswer::kCorrupt},
      {"TextPutOfWords", "Npone\n.", PickleAnswer::kCorrupt},
      {"TextPutBeyondThePickle", "Np99999999\n.", PickleAnswer::kCorrupt},
      {"TextGetOfNothing", "g1\n.", PickleAnswer::kCorrupt},
      {"PersId", pickle("Px\n"), PickleAnswer::kUnsupported},
      {"Inst", pickle("(ios\nsystem\n"), PickleAnswer::kUnsupported},
      {"Extension", pickle("\x82\1"), PickleAnswer::kUnsupported},
      {"NextBuffer", pickle("\x97"), PickleAnswer::kUnsupported},
  };
}

std::vector<PickleCase> size_cases() {
  return {
      {"MillionMarks", "", PickleAnswer::kCorrupt, [] { return pickle(repeated("(", 1'000'000)); }},
      {"VeryDeepLists", "", PickleAnswer::kCorrupt,
       [] { return pickle(repeated("]", 200'000) + repeated("a", 199'999)); }},
      {"VeryDeepTuples", "", PickleAnswer::kCorrupt,
       [] { return pickle(")" + repeated("\x85", 200'000)); }},
      {"VeryDeepDicts", "", PickleAnswer::kCorrupt,
       [] { return pickle(repeated("}N", 200'000) + "N" + repeated("s", 200'000)); }},
      {"ThousandNestedLists", pickle(repeated("]", 1000) + repeated("a", 999)),
       PickleAnswer::kRead},
      {"ThousandAndOneNestedLists", pickle(repeated("]", 1001) + repeated("a", 1000)),
       PickleAnswer::kCorrupt},
      {"ListInItself", pickle("]q\0h\0a"s), PickleAnswer::kCorrupt},
      {"DictInItself", pickle("}q\0Nh\0s"s), PickleAnswer::kCorrupt},
      {"CycleThroughTuple",
       pickle("]q\0h\0\x85"
              "a"s),
       PickleAnswer::kCorrupt},
      {"BillionLaughs", billion_laughs(), PickleAnswer::kCorrupt},
      {"BillionLaughsAsKey", billion_laughs_key(), PickleAnswer::kCorrupt},
      {"MegabyteTextSharedAFewTimes", "", PickleAnswer::kRead,
       [] { return shared_text(1 << 20, 20); }},
      {"MegabyteTextSharedAThousandTimes", "", PickleAnswer::kCorrupt,
       [] { return shared_text(1 << 20, 1000); }},
      {"MegabyteOfBytesAsAKeyAThousandTimes", "", PickleAnswer::kCorrupt,
       [] { return bytes_key(1 << 20, 1000); }},
      {"MegabyteListCopiedAThousandTimes", "", PickleAnswer::kUnsupported,
       [] { return copied_list(1 << 20, 1000); }},
      {"DuplicateKeys", pickle("}(K\1NK\1\x88u"), PickleAnswer::kRead},
  };
}

std::vector<PickleCase> global_cases() {
  return {
      {"OsSystem", pickle(global("os", "system") + unicode("true") + "\x85R"), PickleAnswer::kRead},
      {"PosixSystem", pickle(global("posix", "system")), PickleAnswer::kRead},
      {"BuiltinEval", pickle(global("__builtin__", "eval")), PickleAnswer::kRead},
      {"Getattr", pickle(global("__builtin__", "getattr")), PickleAnswer::kRead},
      {"StackGlobal", pickle(unicode("os") + unicode("system") + "\x93"), PickleAnswer::kRead},
      {"StackGlobalOfNumbers", pickle("NN\x93"), PickleAnswer::kCorrupt},
      {"StackGlobalWithLineFeed", pickle(unicode("a\nos") + unicode("system") + "\x93"),
       PickleAnswer::kCorrupt},
      {"StackGlobalWithEscape", pickle(unicode("os") + unicode("\x1b[2J") + "\x93"),
       PickleAnswer::kCorrupt},
      {"GlobalWithoutName", pickle(global("os", "")), PickleAnswer::kCorrupt},
      {"GlobalThatIsNoUtf8", pickle(global("os", "\xff")), PickleAnswer::kCorrupt},
      {"GlobalWithoutLineFeed", "\x80\2cos", PickleAnswer::kCorrupt},
      {"ByteArrayOf16GiB",
       pickle(global("__builtin__", "bytearray") + int64(std::int64_t{1} << 34) + "\x85R"),
       PickleAnswer::kCorrupt},
      {"FloatTensorClass", pickle(global("torch", "FloatTensor")), PickleAnswer::kRead},
      {"UInt16Storage", pickle(global("torch", "UInt16Storage")), PickleAnswer::kRead},
      {"EvilFloatStorage", pickle(global("evil", "FloatStorage")), PickleAnswer::kRead},
      {"CallOfNumber", pickle("N)R"), PickleAnswer::kUnsupported},
      {"CallOfDType", pickle(global("torch", "float32") + ")R"), PickleAnswer::kUnsupported},
      {"CallOfTensorClass", pickle(global("torch", "Tensor") + ")R"), PickleAnswer::kRead},
      {"ArgumentsThatAreNoTuple", pickle(global("torch", "Size") + "]R"), PickleAnswer::kCorrupt},
      {"MissingArguments", pickle(global("torch", "Size") + ")R"), PickleAnswer::kCorrupt},
      {"SizeOfText", pickle(global("torch", "Size") + unicode("12") + "\x85R"),
       PickleAnswer::kCorrupt},
      {"ClassAsValue", pickle(global("torch", "Tensor")), PickleAnswer::kRead},
      {"BareStorage", pickle(float_storage()), PickleAnswer::kRead},
      {"StateOfList", pickle("]Nb"), PickleAnswer::kUnsupported},
      {"StateOfTensor", pickle(tensor(float_storage() + "K\0K\4\x85K\1\x85"s) + "}b"),
       PickleAnswer::kUnsupported},
      {"EncodeOfUtf16",
       pickle(global("_codecs", "encode") + unicode("a") + unicode("utf-16") + "\x86R"),
       PickleAnswer::kRead},
      {"EncodeOfWideCharacter",
       pickle(global("_codecs", "encode") + unicode("\xe6\x97\xa5") + unicode("latin1") + "\x86R"),
       PickleAnswer::kCorrupt},
      {"TimedeltaOutOfRange",
       pickle(global("datetime", "timedelta") + int64(std::int64_t{1} << 62) + "\x85R"),
       PickleAnswer::kCorrupt},
      {"NumpyObjectArray", pickle(global("numpy", "dtype") + unicode("O8") + "\x89\x88\x87R"),
       PickleAnswer::kRead},
      {"NumpyArrayMadeByItsShape", pickle(global("numpy", "ndarray") + "K\3\x85\x85R"),
       PickleAnswer::kRead},
      {"NumpyArrayOfForeignShape",
       pickle(global("numpy", "ndarray") + global("__main__", "C") + ")R\x85R"),
       PickleAnswer::kRead},
      {"NumpyArrayOfObjects",
       pickle(global("numpy", "ndarray") + "K\0\x85\x85R(K\1K\1\x85"s + global("numpy", "dtype") +
              unicode("O8") + "\x89\x88\x87R\x89]K\1atb"),
       PickleAnswer::kRead},
      {"NumpyArrayWithoutContent", pickle(global("numpy", "ndarray") + "K\0\x85\x85R"s),
       PickleAnswer::kUnsupported},
      {"NumpyScalarOfWrongSize",
       pickle(global("numpy.core.multiarray", "scalar") + global("numpy", "dtype") + unicode("f8") +
              "\x89\x88\x87R" + "C\4abcd" + "\x86R"),
       PickleAnswer::kCorrupt},
      {"NewObjExWithKeywords",
       pickle(global("torch", "Size") + ")\x85}(" + unicode("a") + "Nu\x92"), PickleAnswer::kRead},
  };
}

// An object of __main__.C, with memo number 1, and its class, with memo number 0.
std::string foreign_object() { return global("__main__", "C") + "q\0)\x81q\1"s; }

std::vector<PickleCase> foreign_pickle_cases() {
  return {
      {"ForeignInItself", pickle(foreign_object() + "}" + unicode("me") + "h\1sb"),
       PickleAnswer::kRead},
      {"ForeignInItsArguments", pickle(foreign_object() + "h\1\x85h\0h\1\x85\x81\x87"s),
       PickleAnswer::kRead},
      {"ForeignInAListInItself", pickle("]q\2"s + foreign_object() + "h\2ba"), PickleAnswer::kRead},
      {"ListInItselfBesideAForeign", pickle("]q\2"s + foreign_object() + "ah\2a"),
       PickleAnswer::kCorrupt},
      {"ForeignAsItsOwnKey", pickle(foreign_object() + "}h\1Nsb"), PickleAnswer::kRead},
      {"ForeignWithTwoStates", pickle(foreign_object() + "}b}b"), PickleAnswer::kUnsupported},
      {"ForeignWithItems", pickle(foreign_object() + "(NNeNa(K\1Nu"s), PickleAnswer::kRead},
      {"ForeignWithOddEntries", pickle(foreign_object() + "(Nu"), PickleAnswer::kCorrupt},
      {"ForeignCalledWithAList", pickle(global("a", "b") + "]R"), PickleAnswer::kCorrupt},
      {"ForeignWithKeywordsThatAreNone", pickle(global("a", "b") + ")N\x92"),
       PickleAnswer::kCorrupt},
      {"CallOfACall", pickle(global("a", "b") + ")R)R"), PickleAnswer::kRead},
      {"ParameterOfForeign",
       pickle(global("torch._utils", "_rebuild_parameter") + foreign_object() + "\x89N\x87R"),
       PickleAnswer::kRead},
      {"StorageOfForeignClass", pickle(storage(global("evil", "FloatStorage"), "0", "K\4"s)),
       PickleAnswer::kUnsupported},
      {"VeryDeepForeign", "", PickleAnswer::kCorrupt,
       [] {
         return pickle(repeated(global("a", "b") + ")\x81", 100'000) + repeated("b", 99'999));
       }},
      {"AHundredThousandForeign", "", PickleAnswer::kRead,
       [] { return pickle("](" + foreign_object() + repeated("h\0)\x81"s, 100'000) + "e"); }},
      {"ForeignWithAStateOfAMillion", "", PickleAnswer::kRead,
       [] { return pickle(foreign_object() + "](" + repeated("N", 1'000'000) + "eb"); }},
      {"ForeignThatLaugh", "", PickleAnswer::kCorrupt,
       [] {
         std::string body = foreign_object();
         for (int i = 2; i < 60; ++i) {
           const std::string last = "h"s + static_cast<char>(i - 1);
           body += "0h\0)\x81"s + last + last + "\x86" + "bq" + static_cast<char>(i);
         }
         return pickle(body);
       }},
      {"MillionBackReferences", "", PickleAnswer::kCorrupt,
       [] {
         return pickle("]q\2"s + foreign_object() + repeated("](", 900) +
                       repeated("h\2", 1'000'000) + repeated("e", 900) + "ba");
       }},
      // _rebuild_tensor_v2(storage, 0, a million sizes, strides, foreign, None), called repeatedly
      {"CallsThatFailAfterAMillionNumbers", "", PickleAnswer::kCorrupt,
       [] {
         return pickle("](" + global("torch._utils", "_rebuild_tensor_v2") + "q\2("s +
                       float_storage() + "K\0("s + repeated("K\0"s, 1'000'000) + "tq\3h\3"s +
                       foreign_object() + "Ntq\4R"s + repeated("h\2h\4R"s, 100'000) + "e");
       }},
  };
}

std::vector<PickleCase> storage_cases() {
  const std::string place = "K\0K\4\x85K\1\x85"s;  // offset 0, size (4,), stride (1,)
  const std::string float_class = global("torch", "FloatStorage");
  return {
      {"Tensor", pickle(tensor(float_storage() + place)), PickleAnswer::kRead},
      {"HooksNone",
       pickle(global("torch._utils", "_rebuild_tensor_v2") + "(" + float_storage() + place +
              "\x89NtR"),
       PickleAnswer::kRead},
      {"PersistentIdIsText", pickle(unicode("0") + "Q"), PickleAnswer::kCorrupt},
      {"PersistentIdOfWrongLength", pickle("(" + unicode("storage") + float_class + "tQ"),
       PickleAnswer::kCorrupt},
      {"PersistentIdOfModule",
       pickle("(" + unicode("module") + float_class + unicode("0") + unicode("cpu") + "K\4tQ"s),
       PickleAnswer::kCorrupt},
      {"StorageKeyIsInt",
       pickle("(" + unicode("storage") + float_class + "K\0"s + unicode("cpu") + "K\4tQ"s),
       PickleAnswer::kCorrupt},
      {"StorageKeyIsPath", pickle(tensor(storage(float_class, "../version", "K\4"s) + place)),
       PickleAnswer::kCorrupt},
      {"RecordTooShort", pickle(tensor(float_storage("K\5"s) + place)), PickleAnswer::kCorrupt},
      {"RecordTooLong", pickle(tensor(float_storage("K\3"s) + "K\0K\3\x85K\1\x85"s)),
       PickleAnswer::kCorrupt},
      {"MissingRecord", pickle(tensor(storage(float_class, "7", "K\4"s) + place)),
       PickleAnswer::kCorrupt},
      {"NegativeNumel", pickle(tensor(float_storage(int32(-1)) + place)), PickleAnswer::kCorrupt},
      {"HugeNumel", pickle(tensor(float_storage(int64(std::int64_t{1} << 62)) + place)),
       PickleAnswer::kCorrupt},
      {"NumelBeyondInt64", pickle(tensor(float_storage("\x8a\x09\0\0\0\0\0\0\0\0\1"s) + place)),
       PickleAnswer::kCorrupt},
      {"NumelIsBool", pickle(tensor(float_storage("\x88") + place)), PickleAnswer::kCorrupt},
      {"NumelIsFloat", pickle(tensor(float_storage("G@\x10\0\0\0\0\0\0"s) + place)),
       PickleAnswer::kCorrupt},
      {"SameKeyOtherDType",
       pickle("](" + tensor(float_storage() + place) +
              tensor(storage(global("torch", "IntStorage"), "0", "K\4"s) + place) + "e"),
       PickleAnswer::kCorrupt},
  };
}

std::vector<PickleCase> tensor_cases() {
  const std::string place = "K\0K\4\x85K\1\x85"s;  // offset 0, size (4,), stride (1,)
  const std::string huge = int64(std::int64_t{1} << 60);
  return {
      {"OffsetPastTheEnd", pickle(tensor(float_storage() + "K\1K\4\x85K\1\x85"s)),
       PickleAnswer::kCorrupt},
      {"StridePastTheEnd", pickle(tensor(float_storage() + "K\0K\4\x85K\2\x85"s)),
       PickleAnswer::kCorrupt},
      {"NegativeOffset", pickle(tensor(float_storage() + int32(-1) + "K\4\x85K\1\x85"s)),
       PickleAnswer::kCorrupt},
      {"NegativeStride", pickle(tensor(float_storage() + "K\3K\4\x85"s + int32(-1) + "\x85")),
       PickleAnswer::kCorrupt},
      {"NegativeSize", pickle(tensor(float_storage() + "K\0"s + int32(-4) + "\x85K\1\x85"s)),
       PickleAnswer::kCorrupt},
      {"SizeAndStrideDifferInLength", pickle(tensor(float_storage() + "K\0K\2K\2\x86K\1\x85"s)),
       PickleAnswer::kCorrupt},
      {"NumelOverflow", pickle(tensor(float_storage() + "K\0"s + huge + huge + "\x86K\0K\0\x86"s)),
       PickleAnswer::kCorrupt},
      {"StrideOverflow",
       pickle(tensor(float_storage() + "K\0"s + huge + huge + "\x86" + huge + huge + "\x86")),
       PickleAnswer::kCorrupt},
      {"HugeExpandedTensor", pickle(tensor(float_storage() + "K\0"s + huge + "\x85K\0\x85"s)),
       PickleAnswer::kRead},
      {"EmptyTensorWithOffsetPastTheEnd", pickle(tensor(float_storage() + "K\x63K\0\x85K\1\x85"s)),
       PickleAnswer::kRead},
      {"RequiresGradOnIntegers",
       pickle(global("torch._utils", "_rebuild_tensor_v2") + "(" +
              storage(global("torch", "IntStorage"), "0", "K\4"s) + place + "\x88NtR"),
       PickleAnswer::kCorrupt},
      {"UntypedStorageWithoutDType",
       pickle(tensor(storage(global("torch.storage", "UntypedStorage"), "0", "K\x10"s) + place)),
       PickleAnswer::kCorrupt},
      {"TensorOfText", pickle(tensor(unicode("0") + place)), PickleAnswer::kCorrupt},
      {"SizeOfFloats", pickle(tensor(float_storage() + "K\0G@\x10\0\0\0\0\0\0\x85K\1\x85"s)),
       PickleAnswer::kCorrupt},
      {"SubclassOfTensor",
       pickle(global("torch._tensor", "_rebuild_from_type_v2") + "(" +
              global("torch._utils", "_rebuild_tensor_v2") + global("evil", "Tensor") + "(" +
              float_storage() + place + "\x89Nt}tR"),
       PickleAnswer::kRead},
      {"RebuildOfRebuild",
       pickle(global("torch._tensor", "_rebuild_from_type_v2") + "(" +
              global("torch._tensor", "_rebuild_from_type_v2") + global("torch", "Tensor") +
              ")}tR"),
       PickleAnswer::kRead},
      {"ConjugatedIntegers",
       pickle(global("torch._utils", "_rebuild_tensor_v2") + "(" +
              storage(global("torch", "IntStorage"), "0", "K\4"s) + place + "\x89N}" +
              unicode("conj") + "\x88stR"),
       PickleAnswer::kRead},
      {"ConjugatedThousandTimes",
       pickle("](" +
              repeated(global("torch._utils", "_rebuild_tensor_v2") + "(" +
                           float_storage("M\x90\xd0"s) + place + "\x89N}" + unicode("neg") +
                           "\x88stR",
                       100'000) +
              "e"),
       PickleAnswer::kRead},
  };
}

// Returns the opcodes of torch._utils._rebuild_sparse_tensor(layout, parts).
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

std::vector<PickleCase> pickle_kind_cases() {
  const std::string two_indices = longs("K\0K\1K\2\x86K\2K\1\x86"s);
  const std::string values =
      tensor(storage(global("torch", "FloatStorage"), "0", "K\4"s) + "K\0K\2\x85K\1\x85"s);
  const std::string affine = global("torch", "per_tensor_affine") + "K\1K\0\x87"s;
  std::string nested = quantized("QInt32Storage", affine);
  nested = quantized("QInt32Storage",
                     "(" + global("torch", "per_channel_affine") + nested + nested + "K\0t"s);
  return {
      {"SparseOfUnknownLayout", sparse("torch.strided", ")"), PickleAnswer::kRead},
      {"SparseWithoutParts", sparse("torch.sparse_coo", ")"), PickleAnswer::kCorrupt},
      {"SparseOfTexts", sparse("torch.sparse_coo", unicode("a") + unicode("b") + ")\x87"),
       PickleAnswer::kCorrupt},
      {"SparseWithFloatIndices", sparse("torch.sparse_coo", values + values + "K\5\x85\x87"s),
       PickleAnswer::kCorrupt},
      {"SparseWithTwoTypesOnOneStorage",
       sparse("torch.sparse_coo", two_indices + values + "K\5\x85\x87"s), PickleAnswer::kCorrupt},
      {"SparseCsrOfTwoParts",
       sparse("torch.sparse_csr", two_indices + two_indices + "K\5\x85\x87"s),
       PickleAnswer::kCorrupt},
      {"SparseWithNegativeSize",
       sparse("torch.sparse_coo",
              two_indices + longs("K\0K\2\x85K\1\x85"s) + int32(-5) + "\x85\x87"),
       PickleAnswer::kCorrupt},
      {"SparseOfLongs",
       sparse("torch.sparse_coo", two_indices + longs("K\0K\2\x85K\1\x85"s) + "K\5\x85\x87"s),
       PickleAnswer::kRead},
      {"Quantized", pickle(quantized("QInt32Storage", affine)), PickleAnswer::kRead},
      {"QuantizedFloats", pickle(quantized("FloatStorage", affine)), PickleAnswer::kCorrupt},
      {"QuantizedByUnknownScheme", pickle(quantized("QInt32Storage", "NK\1K\0\x87"s)),
       PickleAnswer::kRead},
      {"QuantizedByQuantizedScales", pickle(nested), PickleAnswer::kCorrupt},
      {"QuantizedWithoutScale",
       pickle(quantized("QInt32Storage", global("torch", "per_tensor_affine") + "\x85")),
       PickleAnswer::kCorrupt},
      {"QSchemeAsValue", pickle(global("torch", "per_tensor_affine")), PickleAnswer::kRead},
  };
}

class HostilePickleTest : public ::testing::TestWithParam<PickleCase> {};

TEST_P(HostilePickleTest, HasOneRightAnswer) {
  const bool is_long = GetParam().name == "ConjugatedThousandTimes"s;
  const std::string made = GetParam().make != nullptr ? GetParam().make() : GetParam().pickle;
  const TorchFile file(shared(torch_file_of(made, std::string(is_long ? 4 * 53392 : 16, '\1'))),
                       "hostile.pt");
  PickleAnswer answer = PickleAnswer::kRead;
  std::string message;
  try {
    file.read();
  } catch (const CorruptError& e) {
    answer = PickleAnswer::kCorrupt;
    message = e.what();
    const FileRecord& record = *file.find_record("data.pkl");
    EXPECT_EQ(e.file(), "hostile.pt");
    EXPECT_GE(e.offset(), record.offset);
    EXPECT_LE(e.offset(), record.offset + record.size);
  } catch (const UnsupportedError& e) {
    answer = PickleAnswer::kUnsupported;
    message = e.what();
  }
  EXPECT_EQ(answer, GetParam().answer) << message;
  if (answer != PickleAnswer::kRead) {
    EXPECT_EQ(message.find("hostile.pt: "), 0U) << message;
  }
}

std::string pickle_case_name(const ::testing::TestParamInfo<PickleCase>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Machine, HostilePickleTest, ::testing::ValuesIn(machine_cases()),
                         pickle_case_name);
INSTANTIATE_TEST_SUITE_P(Operands, HostilePickleTest, ::testing::ValuesIn(operand_cases()),
                         pickle_case_name);
INSTANTIATE_TEST_SUITE_P(Sizes, HostilePickleTest, ::testing::ValuesIn(size_cases()),
                         pickle_case_name);
INSTANTIATE_TEST_SUITE_P(Storages, HostilePickleTest, ::testing::ValuesIn(storage_cases()),
                         pickle_case_name);
INSTANTIATE_TEST_SUITE_P(Globals, HostilePickleTest, ::testing::ValuesIn(global_cases()),
                         pickle_case_name);
INSTANTIATE_TEST_SUITE_P(Foreign, HostilePickleTest, ::testing::ValuesIn(foreign_pickle_cases()),
                         pickle_case_name);
INSTANTIATE_TEST_SUITE_P(Tensors, HostilePickleTest, ::testing::ValuesIn(tensor_cases()),
                         pickle_case_name);

INSTANTIATE_TEST_SUITE_P(Kinds, HostilePickleTest, ::testing::ValuesIn(pickle_kind_cases()),
                         pickle_case_name);

TEST(HostilePickleTest, WhoNeedsAForeignObjectIsToldItsClass) {
  const std::string call = global("os", "system") + unicode("true") + "\x85R";
  const TorchFile file(shared(torch_file_of(pickle(call))), "x.pt");
  const Value value = file.read();
  ASSERT_TRUE(value.is_foreign());
  try {
    value.as_dict();
    FAIL() << "was a dict";
  } catch (const UnsupportedError& e) {
    EXPECT_NE(std::string(e.what()).find("os.system"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("runs no code"), std::string::npos) << e.what();
  }
}

TEST(HostilePickleTest, LastOfDuplicateKeysWins) {
  const TorchFile file(shared(torch_file_of(pickle("}(K\1NK\1\x88u"))), "x.pt");
  EXPECT_EQ(file.read(), Value(Dict{{1, true}}));
}

// A pickle of torch.empty(0) and of its view with the type torch.int32. PyTorch writes the storages
// of both under one key.
TEST(HostilePickleTest, ViewsOfNothingMayHaveTwoTypes) {
  const auto view = [](const char* type) {
    return tensor(storage(global("torch", type), "0", "K\0"s) + "K\0K\0\x85K\1\x85"s);
  };
  const std::string both = "](" + view("FloatStorage") + view("IntStorage") + "e";
  const TorchFile file(shared(torch_file_of(pickle(both), "")), "x.pt");
  const Value value = file.read();
  EXPECT_EQ(value.as_items()[0].as_tensor().dtype, DType::kFloat32);
  EXPECT_EQ(value.as_items()[1].as_tensor().dtype, DType::kInt32);
  EXPECT_NO_THROW(TorchFilePlan(value).size()) << "it can be written again";
}

}  // namespace
}  // namespace cairn
