// Hostile zips, and unusual ones that are valid.
#include <gtest/gtest.h>

#include "cairn/error.h"
#include "cairn/format/torch_file.h"

#include "testing/string_sink.h"
#include "tests/format/raw_zip.h"

namespace cairn {
namespace {

using testing::encoded;
using testing::RawRecord;
using testing::RawZip;
using testing::shared;
using namespace std::string_literals;

enum class ZipAnswer { kRead, kCorrupt, kUnsupported };

struct ZipCase {
  const char* name;
  std::string bytes;
  ZipAnswer answer;
};

void PrintTo(const ZipCase& c, std::ostream* out) { *out << c.name; }

const std::string kPickle = "\x80\2}X\1\0\0\0aK\1s."s;  // {"a": 1}

RawRecord pickle_record(const std::string& prefix = "archive") {
  return {.name = prefix + "/data.pkl", .content = kPickle};
}
RawRecord version(const std::string& text = "3\n", const std::string& prefix = "archive") {
  return {.name = prefix + "/version", .content = text};
}
RawRecord named(const std::string& name) { return {.name = name, .content = "x"}; }

std::string zip_with(const std::vector<RawRecord>& more) {
  std::vector<RawRecord> records = {pickle_record(), version()};
  records.insert(records.end(), more.begin(), more.end());
  return RawZip(records).bytes();
}

// Returns a zip whose first record was changed.
template <class Change>
std::string zip_of(Change change) {
  RawRecord record = pickle_record();
  change(record);
  return RawZip({record, version()}).bytes();
}

// Returns cairn's own file, which has Zip64 records at its end, with `bytes` written at `from_end`.
std::string patched_end(std::size_t from_end, const std::string& bytes) {
  std::string file = encoded(Dict{{"a", 1}});
  return file.replace(file.size() - from_end, bytes.size(), bytes);
}

std::vector<ZipCase> foreign_cases() {
  const RawZip plain({pickle_record(), version()});
  return {
      {"PythonsZipfile", plain.bytes(), ZipAnswer::kRead},
      {"OtherRoot", RawZip({pickle_record("a b"), version("3\n", "a b")}).bytes(),
       ZipAnswer::kRead},
      {"OtherOrder", RawZip({version(), pickle_record()}).bytes(), ZipAnswer::kRead},
      {"VersionInDotData",
       RawZip({pickle_record(),
               named("archive/.data/serialization_id"),
               {.name = "archive/.data/version", .content = "10\n"}})
           .bytes(),
       ZipAnswer::kRead},
      {"FolderEntries",
       RawZip({{.name = "archive/", .content = ""}, pickle_record(), version()}).bytes(),
       ZipAnswer::kRead},
      {"ByteOrderLittle", zip_with({{.name = "archive/byteorder", .content = "little"}}),
       ZipAnswer::kRead},
      {"TrailingJunk", plain.bytes() + std::string(1000, 'j'), ZipAnswer::kRead},
      {"LongTrailingJunk", plain.bytes() + std::string(70'000, 'j'), ZipAnswer::kCorrupt},
      {"NoChecksums",
       RawZip({{.name = "archive/data.pkl", .content = kPickle, .zero_crc = true},
               {.name = "archive/version", .content = "3\n", .zero_crc = true}})
           .bytes(),
       ZipAnswer::kRead},
      {"LocalSizesLeftToZip64", zip_of([](RawRecord& r) { r.local_size = 0xFFFFFFFF; }),
       ZipAnswer::kRead},
      {"UnknownRecords", zip_with({named("archive/notes.txt")}), ZipAnswer::kRead},
      {"NumbersInAnyOrder",
       zip_with({named("archive/data/10"), named("archive/data/2"), named("archive/data/02")}),
       ZipAnswer::kRead},
  };
}

std::vector<ZipCase> zip_kind_cases() {
  return {
      {"Empty", "", ZipAnswer::kCorrupt},
      {"Zeros", std::string(1000, '\0'), ZipAnswer::kCorrupt},
      {"Random", "\x12\x34\x56\x78 random bytes that are nothing", ZipAnswer::kCorrupt},
      {"PlainPickle", "\x80\4N.", ZipAnswer::kUnsupported},
      {"Legacy", "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e",
       ZipAnswer::kUnsupported},
      {"Safetensors", "\2\0\0\0\0\0\0\0{}"s, ZipAnswer::kUnsupported},
      {"Gzip", "\x1f\x8b\x08", ZipAnswer::kUnsupported},
      {"JunkBeforeTheZip", "junk" + zip_with({}), ZipAnswer::kCorrupt},
      {"OnlyTheFirstBytes", "PK\3\4", ZipAnswer::kCorrupt},
      {"EmptyZip", RawZip(std::vector<RawRecord>{}).bytes(), ZipAnswer::kCorrupt},
      {"OtherZip", RawZip({named("a/b.txt")}).bytes(), ZipAnswer::kUnsupported},
      {"TorchScript", zip_with({named("archive/constants.pkl")}), ZipAnswer::kCorrupt},
      {"NoVersion", RawZip({pickle_record()}).bytes(), ZipAnswer::kCorrupt},
      {"Version0", RawZip({pickle_record(), version("0\n")}).bytes(), ZipAnswer::kCorrupt},
      {"VersionOfANewerPyTorch", RawZip({pickle_record(), version("11\n")}).bytes(),
       ZipAnswer::kUnsupported},
      {"VersionText", RawZip({pickle_record(), version("three")}).bytes(), ZipAnswer::kCorrupt},
      {"VersionEmpty", RawZip({pickle_record(), version("")}).bytes(), ZipAnswer::kCorrupt},
      {"BigEndian", zip_with({{.name = "archive/byteorder", .content = "big"}}), ZipAnswer::kRead},
      {"ByteOrderXx", zip_with({{.name = "archive/byteorder", .content = "xx"}}),
       ZipAnswer::kCorrupt},
  };
}

std::vector<ZipCase> directory_cases() {
  const RawZip plain({pickle_record(), version()});
  const std::string body = plain.local() + plain.central();
  const std::size_t size = plain.central().size();
  const std::size_t offset = plain.local().size();
  return {
      {"CountTooSmall", body + RawZip::end(1, size, offset), ZipAnswer::kCorrupt},
      {"CountTooLarge", body + RawZip::end(3, size, offset), ZipAnswer::kCorrupt},
      {"CountHuge", body + RawZip::end(0xFFFF, size, offset), ZipAnswer::kCorrupt},
      {"DirectoryBeyondFile", body + RawZip::end(2, size, offset + 1000), ZipAnswer::kCorrupt},
      {"DirectoryTooLong", body + RawZip::end(2, size + 1, offset), ZipAnswer::kCorrupt},
      {"DirectoryShifted", body + RawZip::end(2, size - 1, offset + 1), ZipAnswer::kCorrupt},
      {"GapBeforeEnd", body + "gap" + RawZip::end(2, size, offset), ZipAnswer::kCorrupt},
      {"DuplicateName", zip_with({pickle_record()}), ZipAnswer::kCorrupt},
      {"DuplicateInOtherCase", zip_with({named("archive/DATA.pkl")}), ZipAnswer::kCorrupt},
      {"DuplicateNumber", zip_with({named("archive/data/9"), named("archive/data/9")}),
       ZipAnswer::kCorrupt},
      {"DuplicateNumberFurtherOn",
       zip_with({named("archive/data/1"), named("archive/data/10"), named("archive/data/1")}),
       ZipAnswer::kCorrupt},
      {"DuplicateNumberInOtherCase",
       zip_with({named("archive/Data/1"), named("archive/data/2"), named("archive/data/1")}),
       ZipAnswer::kCorrupt},
      {"DuplicateBesideNumbers",
       zip_with({named("archive/data/1"), named("archive/data/x"), named("archive/data/2"),
                 named("archive/data/X")}),
       ZipAnswer::kCorrupt},
      {"TwoPrefixes", zip_with({named("other/x")}), ZipAnswer::kCorrupt},
      {"PrefixOfPrefix", zip_with({named("archive2/x")}), ZipAnswer::kCorrupt},
      {"NoPrefix", RawZip({named("data.pkl"), named("version")}).bytes(), ZipAnswer::kUnsupported},
      {"DotDot", zip_with({named("archive/../x")}), ZipAnswer::kCorrupt},
      {"DotDotPrefix", RawZip({pickle_record(".."), version("3\n", "..")}).bytes(),
       ZipAnswer::kCorrupt},
      {"Absolute", zip_with({named("/archive/x")}), ZipAnswer::kCorrupt},
      {"Backslash", zip_with({named("archive\\x")}), ZipAnswer::kCorrupt},
      {"NulInName", zip_with({named("archive/a\0b"s)}), ZipAnswer::kCorrupt},
      {"EmptyName", zip_with({named("")}), ZipAnswer::kCorrupt},
      {"EmptyComponent", zip_with({named("archive//x")}), ZipAnswer::kCorrupt},
      {"FolderWithContent", zip_with({named("archive/folder/")}), ZipAnswer::kCorrupt},
  };
}

std::vector<ZipCase> header_cases() {
  const RawZip plain({pickle_record(), version()});
  const std::size_t offset = plain.local().size();
  return {
      {"Encrypted", zip_of([](RawRecord& r) { r.local_flags = r.central_flags = 1; }),
       ZipAnswer::kUnsupported},
      {"Deflated", zip_of([](RawRecord& r) { r.local_method = r.central_method = 8; }),
       ZipAnswer::kUnsupported},
      {"UnknownMethod", zip_of([](RawRecord& r) { r.local_method = r.central_method = 99; }),
       ZipAnswer::kUnsupported},
      {"OtherDisk", zip_of([](RawRecord& r) { r.disk = 1; }), ZipAnswer::kCorrupt},
      {"Zip64FieldMissing", zip_of([](RawRecord& r) { r.central_size = 0xFFFFFFFF; }),
       ZipAnswer::kCorrupt},
      {"LocalNameDiffers", zip_of([](RawRecord& r) { r.local_name = "archive/data.pk1"; }),
       ZipAnswer::kCorrupt},
      {"LocalNameLonger", zip_of([](RawRecord& r) { r.local_name = "archive/data.pkl2"; }),
       ZipAnswer::kCorrupt},
      {"LocalSizeDiffers", zip_of([](RawRecord& r) { r.local_size = 1; }), ZipAnswer::kCorrupt},
      {"LocalSizeZeroWithoutDescriptor", zip_of([](RawRecord& r) { r.local_size = 0; }),
       ZipAnswer::kCorrupt},
      {"LocalCrcDiffers", zip_of([](RawRecord& r) { r.local_crc = 1; }), ZipAnswer::kCorrupt},
      {"LocalFlagsDiffer", zip_of([](RawRecord& r) { r.local_flags = 0x800; }),
       ZipAnswer::kCorrupt},
      {"LocalMethodDiffers", zip_of([](RawRecord& r) { r.local_method = 8; }), ZipAnswer::kCorrupt},
      {"HeaderBeyondFile", zip_of([](RawRecord& r) { r.central_offset = 0xFFFFFFF0; }),
       ZipAnswer::kCorrupt},
      {"HeaderInsideDirectory",
       zip_of([&](RawRecord& r) { r.central_offset = static_cast<std::uint32_t>(offset); }),
       ZipAnswer::kCorrupt},
      {"HeaderIsNoHeader", zip_of([](RawRecord& r) { r.central_offset = 4; }), ZipAnswer::kCorrupt},
      {"RecordReachesIntoDirectory",
       zip_of([](RawRecord& r) { r.central_size = r.local_size = 500; }), ZipAnswer::kCorrupt},
      {"RecordsOverlap", zip_of([](RawRecord& r) { r.central_size = r.local_size = 40; }),
       ZipAnswer::kCorrupt},
      {"SameRecordTwice",
       RawZip({pickle_record(),
               version(),
               {.name = "archive/copy", .content = "", .central_offset = 0}})
           .bytes(),
       ZipAnswer::kCorrupt},
  };
}

// Offsets from the end of cairn's own file: 22 for the end record, 42 for the locator, 98 for the
// Zip64 end record.
std::vector<ZipCase> end_cases() {
  return {
      {"Untouched", patched_end(22, "PK\5\6"), ZipAnswer::kRead},
      {"NoEnd", patched_end(22, "PKxx"), ZipAnswer::kCorrupt},
      {"EndSaysPartOfSeveral", patched_end(18, "\1"), ZipAnswer::kCorrupt},
      {"EndCountDisagrees", patched_end(14, "\1\0\1\0"s), ZipAnswer::kCorrupt},
      {"EndOffsetDisagrees", patched_end(6, "\1"), ZipAnswer::kCorrupt},
      {"EndSizeDisagrees", patched_end(10, "\1"), ZipAnswer::kCorrupt},
      {"EndSaturated", patched_end(14, std::string(12, '\xff')), ZipAnswer::kRead},
      {"LocatorMissing", patched_end(42, "PKxx"), ZipAnswer::kCorrupt},
      {"LocatorBeyondFile", patched_end(34, "\xff\xff\xff\xff\xff\xff\xff\x7f"),
       ZipAnswer::kCorrupt},
      {"LocatorAtItself", patched_end(34, "\0\0\0\0\0\0\0\0"s), ZipAnswer::kCorrupt},
      {"LocatorSaysTwoDisks", patched_end(26, "\2"), ZipAnswer::kCorrupt},
      {"Zip64RecordMissing", patched_end(98, "PKxx"), ZipAnswer::kCorrupt},
      {"Zip64SizeWrong", patched_end(94, "\x2d"), ZipAnswer::kCorrupt},
      {"Zip64SizeHuge", patched_end(94, "\xff\xff\xff\xff\xff\xff\xff\xff"), ZipAnswer::kCorrupt},
      {"Zip64CountsDiffer", patched_end(74, "\1"), ZipAnswer::kCorrupt},
      {"Zip64DirectoryHuge", patched_end(58, "\xff\xff\xff\xff\xff\xff\xff\xff"),
       ZipAnswer::kCorrupt},
  };
}

class HostileZipTest : public ::testing::TestWithParam<ZipCase> {};

TEST_P(HostileZipTest, HasOneRightAnswer) {
  ZipAnswer answer = ZipAnswer::kRead;
  std::string message;
  try {
    const TorchFile file(shared(GetParam().bytes), "hostile.pt");
    EXPECT_EQ(file.read(), Value(Dict{{"a", 1}}));
  } catch (const CorruptError& e) {
    answer = ZipAnswer::kCorrupt;
    message = e.what();
    EXPECT_EQ(e.file(), "hostile.pt");
    EXPECT_NE(e.offset(), CorruptError::kNoOffset);
  } catch (const UnsupportedError& e) {
    answer = ZipAnswer::kUnsupported;
    message = e.what();
  }
  EXPECT_EQ(answer, GetParam().answer) << message;
  if (answer != ZipAnswer::kRead) {
    EXPECT_EQ(message.find("hostile.pt: "), 0U) << message;
  }
}

std::string zip_case_name(const ::testing::TestParamInfo<ZipCase>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Foreign, HostileZipTest, ::testing::ValuesIn(foreign_cases()),
                         zip_case_name);
INSTANTIATE_TEST_SUITE_P(Kinds, HostileZipTest, ::testing::ValuesIn(zip_kind_cases()),
                         zip_case_name);
INSTANTIATE_TEST_SUITE_P(Directory, HostileZipTest, ::testing::ValuesIn(directory_cases()),
                         zip_case_name);
INSTANTIATE_TEST_SUITE_P(Headers, HostileZipTest, ::testing::ValuesIn(header_cases()),
                         zip_case_name);
INSTANTIATE_TEST_SUITE_P(End, HostileZipTest, ::testing::ValuesIn(end_cases()), zip_case_name);

TEST(TorchFileTest, WithoutChecksumsNothingIsChecked) {
  const TorchFile file(
      shared(RawZip({{.name = "archive/data.pkl", .content = kPickle, .zero_crc = true},
                     {.name = "archive/version", .content = "3\n", .zero_crc = true}})
                 .bytes()),
      "x.pt");
  EXPECT_FALSE(file.has_checksums());
  EXPECT_TRUE(file.matches_crc(*file.find_record("data.pkl")));
}

TEST(TorchFileTest, LayoutOfAnotherWriterIsNotCanonical) {
  const TorchFile file(shared(zip_with({})), "x.pt");
  std::uint64_t offset = 0;
  EXPECT_FALSE(file.has_canonical_layout(&offset));
  EXPECT_EQ(offset, 4U);  // "version needed" of the first local header
}

TEST(DescribeBytesTest, SaysWhatAFileIs) {
  const auto describe = [](const std::string& bytes) { return describe_bytes(as_bytes(bytes)); };
  EXPECT_EQ(describe(encoded(Dict{})), "a torch.save file");
  EXPECT_EQ(describe(encoded(Dict{}).substr(0, 200)), "a zip file that is cut off or damaged");
  EXPECT_EQ(describe(zip_with({named("archive/constants.pkl")})), "a TorchScript archive");
  EXPECT_EQ(describe(RawZip({named("a/b")}).bytes()), "a zip file, but not of torch.save");
  EXPECT_EQ(describe(""), "an empty file");
  EXPECT_EQ(describe(std::string(100, '\0')), "only zero bytes");
  EXPECT_EQ(describe("\x80\4N."), "a plain pickle (protocol 4)");
  EXPECT_EQ(describe("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e"),
            "a torch.save file in the legacy format (before PyTorch 1.6)");
  EXPECT_EQ(describe("\2\0\0\0\0\0\0\0{}"s), "a safetensors file");
  EXPECT_EQ(describe("\x1f\x8b\x08"), "a gzip file");
  EXPECT_EQ(describe(std::string(257, 'x') + "ustar"), "a tar file");
  EXPECT_EQ(describe("hello"), "no kind of file that cairn knows");
}

}  // namespace
}  // namespace cairn
