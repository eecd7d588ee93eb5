// Tars as programs write them, as cairn writes them, and as an attacker would.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/error.h"

#include "format/tar/header.h"
#include "format/tar/reader.h"
#include "format/tar/writer.h"
#include "io/process/program.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"
#include "tests/format/tar_text.h"

namespace cairn::tar {
namespace {

using cairn::testing::kTarEnd;
using cairn::testing::pax;
using cairn::testing::StringSink;
using cairn::testing::tar_member;
using cairn::testing::TarMember;
using cairn::testing::TempFolder;
using ::testing::HasSubstr;

// Returns the names and contents of the files.
std::vector<std::pair<std::string, std::string>> read(const std::string& tar) {
  std::vector<std::pair<std::string, std::string>> files;
  for (const File& file : read_files(*testing::source_with(tar))) {
    files.emplace_back(file.name, tar.substr(file.offset, file.size));
  }
  return files;
}

using Files = std::vector<std::pair<std::string, std::string>>;

template <class E>
std::string error_of(const std::string& tar) {
  try {
    read_files(*testing::source_with(tar));
  } catch (const E& e) {
    return e.what();
  }
  return "no such error";
}

std::string written(const std::string& content) {
  StringSink sink;
  Writer tar(sink, "composer_states.pt", content.size());
  tar.write(as_bytes(content));
  tar.finish();
  return sink.text;
}

TEST(TarTest, WhatIsWrittenIsRead) {
  for (const std::size_t size : {0, 1, 511, 512, 513, 10'000}) {
    const std::string content(size, 'c');
    const std::string tar = written(content);
    EXPECT_EQ(tar.size() % kBlockBytes, 0U);
    EXPECT_TRUE(is_tar(as_bytes(tar)));
    EXPECT_EQ(read(tar), (Files{{"composer_states.pt", content}})) << size;
  }
}

// This is the worked example of docs/formats/containers.md.
TEST(TarTest, TheExampleOfTheDocumentationIsWhatIsWritten) {
  const std::string folder = CAIRN_TEST_DATA "/cairn/";
  EXPECT_EQ(written(cairn::testing::read_file(folder + "tiny.pt")),
            cairn::testing::read_file(folder + "tiny.tar"));
}

TEST(TarTest, TheSizeOfALargeFileStandsInAPaxHeader) {
  class FirstBlocks final : public ByteSink {
   public:
    void write(ByteView bytes) override { text.append(as_text(bytes)); }
    std::string text;
  } sink;
  const std::uint64_t size = (std::uint64_t{1} << 33) + 5;
  const Writer writer(sink, "large.pt", size);
  EXPECT_THAT(sink.text, HasSubstr("19 size=8589934597\n"));
  // The reader takes the size from that record, and reports only that the content is missing.
  EXPECT_THAT(error_of<CorruptError>(sink.text), HasSubstr("needs 8589934597 bytes"));
}

TEST(TarTest, TheWriterTakesExactlyWhatWasAnnounced) {
  StringSink sink;
  Writer tar(sink, "a", 3);
  tar.write(as_bytes("ab"));
  EXPECT_THROW(tar.finish(), UsageError);
  EXPECT_THROW(tar.write(as_bytes("cd")), UsageError);
  EXPECT_THROW(Writer(sink, std::string(101, 'a'), 3), UsageError);
  EXPECT_THROW(Writer(sink, "", 3), UsageError);
}

TEST(TarTest, NamesOfAllKindsAreRead) {
  const std::string long_name = std::string(150, 'n') + "/" + std::string(150, 'm');
  EXPECT_EQ(read(tar_member({.name = "b", .prefix = "a"}) + kTarEnd), (Files{{"a/b", "content"}}));
  EXPECT_EQ(read(tar_member({.name = "b", .prefix = "a", .is_gnu = true}) + kTarEnd),
            (Files{{"b", "content"}}));
  EXPECT_EQ(read(tar_member({.name = "./x//./y"}) + kTarEnd), (Files{{"x/y", "content"}}));
  EXPECT_EQ(read(pax("path", long_name) + tar_member({}) + kTarEnd),
            (Files{{long_name, "content"}}));
  EXPECT_EQ(read(tar_member({.type = 'L', .content = long_name + '\0'}) + tar_member({}) + kTarEnd),
            (Files{{long_name, "content"}}));
  // An extra header applies to one member only.
  EXPECT_EQ(read(pax("path", "first") + tar_member({}) + tar_member({.name = "second"}) + kTarEnd),
            (Files{{"first", "content"}, {"second", "content"}}));
  EXPECT_EQ(read(tar_member({.type = 'g', .content = "19 comment=not used\n"}) + tar_member({}) +
                 kTarEnd),
            (Files{{"a.pt", "content"}}));
}

TEST(TarTest, SizesOfAllKindsAreRead) {
  const Files expected{{"a.pt", "content"}};
  EXPECT_EQ(read(tar_member({.size_field = "          7 "}) + kTarEnd), expected);
  EXPECT_EQ(
      read(tar_member({.size_field = std::string("\x80\0\0\0\0\0\0\0\0\0\0\x07", 12)}) + kTarEnd),
      expected);
  EXPECT_EQ(read(pax("size", "7") + tar_member({.size_field = "00000000000"}) + kTarEnd), expected);
  for (const std::string bad : {"9", "-7", "7x", "77777777777", ""}) {
    const std::string field = bad.empty() ? std::string(12, ' ') : bad;
    EXPECT_THAT(error_of<CorruptError>(tar_member({.size_field = field}) + kTarEnd),
                HasSubstr("tar"));
  }
  EXPECT_THROW(read(tar_member({.size_field = std::string(12, '\xff')}) + kTarEnd), CorruptError);
  EXPECT_THROW(read(pax("size", "18446744073709551615") + tar_member({}) + kTarEnd), CorruptError);
  EXPECT_THROW(read(pax("size", "99999999999999999999") + tar_member({}) + kTarEnd), CorruptError);
}

TEST(TarTest, FoldersArePassedOver) {
  for (const std::string name : {"/", "./", "", ".", "folder/", "a/b"}) {
    EXPECT_EQ(
        read(tar_member({.name = name, .type = '5', .content = ""}) + tar_member({}) + kTarEnd),
        (Files{{"a.pt", "content"}}))
        << name;
  }
}

TEST(TarTest, WhatCouldReachOutsideIsRefusedByName) {
  const auto refusal = [](const TarMember& m) {
    return error_of<UnsupportedError>(tar_member(m) + tar_member({.name = "good.pt"}) + kTarEnd);
  };
  EXPECT_THAT(refusal({.name = "/etc/passwd"}), HasSubstr("\"/etc/passwd\" of the tar has an abs"));
  EXPECT_THAT(refusal({.name = "../a.pt"}), HasSubstr("\"../a.pt\""));
  EXPECT_THAT(refusal({.name = "a/../../b"}), HasSubstr("leaves the folder"));
  EXPECT_THAT(refusal({.name = "/etc", .type = '5', .content = ""}), HasSubstr("absolute"));
  EXPECT_THAT(refusal({.name = "..", .type = '5', .content = ""}), HasSubstr("leaves"));
  EXPECT_THAT(refusal({.name = "link", .type = '1', .content = ""}), HasSubstr("is a link"));
  EXPECT_THAT(refusal({.name = "link", .type = '2', .content = ""}), HasSubstr("is a link"));
  for (const char type : std::string("346SDMVNX9")) {
    EXPECT_THAT(refusal({.name = "odd", .type = type, .content = ""}), HasSubstr("\"odd\""))
        << type;
  }
  EXPECT_THAT(refusal({.name = "good.pt"}), HasSubstr("occurs twice"));
  EXPECT_THAT(refusal({.name = "./good.pt"}), HasSubstr("occurs twice"));
  EXPECT_THAT(error_of<UnsupportedError>(pax("path", "../up") + tar_member({}) + kTarEnd),
              HasSubstr("leaves"));
  EXPECT_THAT(error_of<UnsupportedError>(pax("GNU.sparse.map", "0,1") + tar_member({}) + kTarEnd),
              HasSubstr("sparse"));
}

TEST(TarTest, DamagedExtraHeadersAreCorrupt) {
  for (const std::string text :
       {"x", "7 a=b", "99 a=b\n", "6 a=b\n\n", "5 ab\n", "0 a=b\n", "6\n"}) {
    const std::string tar = tar_member({.type = 'x', .content = text}) + tar_member({}) + kTarEnd;
    EXPECT_THAT(error_of<CorruptError>(tar), HasSubstr("pax header")) << text;
  }
  const std::string huge = tar_member({.type = 'L', .content = std::string((1 << 20) + 1, 'n')});
  EXPECT_THAT(error_of<CorruptError>(huge + tar_member({}) + kTarEnd), HasSubstr("1 MiB"));
}

TEST(TarTest, TruncationAtEveryByteIsCorrupt) {
  const std::string tar =
      pax("path", "long") + tar_member({}) + tar_member({.name = "b"}) + kTarEnd;
  for (std::size_t size = 0; size < tar.size(); ++size) {
    EXPECT_THROW(read(tar.substr(0, size)), CorruptError) << size;
  }
}

TEST(TarTest, AFlipOfEveryHeaderByteIsAnError) {
  const std::string tar = tar_member({}) + kTarEnd;
  const std::size_t behind_checksum = kChecksum.offset + kChecksum.size - 1;  // never read
  for (std::size_t at = 0; at < kBlockBytes; ++at) {
    if (at == behind_checksum) continue;
    std::string damaged = tar;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x01);
    EXPECT_TRUE(is_tar(as_bytes(damaged)) || (at >= kMagic.offset && at < kPrefix.offset)) << at;
    EXPECT_THROW(read(damaged), Error) << at;
  }
}

TEST(TarTest, PaddingIsZerosInWholeBlocks) {
  const std::string tar = tar_member({}) + kTarEnd;
  EXPECT_EQ(read(tar + std::string(18 * kBlockBytes, '\0')).size(), 1U);
  EXPECT_THROW(read(tar + std::string(100, '\0')), CorruptError);
  EXPECT_THROW(read(tar + tar_member({.name = "b"}) + kTarEnd), CorruptError);
  EXPECT_THROW(read(tar + std::string(kBlockBytes, 'x')), CorruptError);
}

TEST(TarTest, OtherFilesAreNoTar) {
  EXPECT_FALSE(is_tar(as_bytes("")));
  EXPECT_FALSE(is_tar(as_bytes(std::string(10'000, '\0'))));
  EXPECT_FALSE(is_tar(as_bytes(std::string(10'000, 'x'))));
  EXPECT_FALSE(is_tar(as_bytes(std::string(511, '0'))));
}

class ToolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!find_program("tar")) GTEST_SKIP() << "tar is not installed";
  }
  static std::string run(const std::vector<std::string>& argv, const std::string& input = "") {
    StringSink out;
    PipeThrough program(argv, out);
    program.write(as_bytes(input));
    EXPECT_EQ(program.finish(), "");
    return out.text;
  }
};

TEST_F(ToolTest, TarReadsWhatIsWritten) {
  const std::string content(70'000, 'c');
  const std::string tar = written(content);
  EXPECT_EQ(run({"tar", "-tf", "-"}, tar), "composer_states.pt\n");
  EXPECT_TRUE(run({"tar", "-xOf", "-", "composer_states.pt"}, tar) == content);
}

TEST_F(ToolTest, EveryFormatOfTarIsRead) {
  const TempFolder folder;
  const std::string name = std::string(90, 'n') + ".pt";
  const std::string content(3000, 'c');
  cairn::testing::write_file(folder / name, content);
  for (const std::string format : {"v7", "ustar", "gnu", "oldgnu", "pax"}) {
    const std::string tar =
        run({"tar", "--format=" + format, "-C", folder.path(), "-cf", "-", "."});
    EXPECT_TRUE(is_tar(as_bytes(tar))) << format;
    EXPECT_EQ(read(tar), (Files{{name, content}})) << format;
  }
}

}  // namespace
}  // namespace cairn::tar
