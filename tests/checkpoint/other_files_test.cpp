// Files that PyTorch reads and few programs write, and files that are no checkpoint at all. Files
// of the first kind are read completely. Errors say what a file of the second kind is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/convert.h"
#include "cairn/error.h"
#include "cairn/foreign.h"

#include "checkpoint/open/source.h"
#include "checkpoint/plan/folder_manifest.h"
#include "checkpoint/plan/write_dcp.h"
#include "core/hash/xxh3.h"
#include "core/text/writer.h"
#include "io/read_fault.h"
#include "storage/local/local_store.h"
#include "testing/copied_folder.h"
#include "testing/message_of.h"
#include "testing/sample_checkpoint.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"
#include "tests/format/raw_zip.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::CopiedFolder;
using ::testing::HasSubstr;
using testing::kData;
using testing::message_of;
using testing::RawRecord;
using testing::RawZip;
using testing::read_file;
using testing::shared;
using testing::TempFolder;
using testing::write_file;

const std::string kOthers = kData + "/other-files/";
const std::string kPointer =
    "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n";

std::string bytes_at(const Value& value, const char* path) {
  return std::string(as_text(value.at(path).as_tensor().contiguous_bytes().view));
}

// --- Unpacked, and repacked by a tool that compresses --------------------------------------------

// A zip with the records of a file in another order. `make` makes each record.
std::string packed_again(const std::string& path, const auto& make) {
  const TorchFile file(shared(read_file(path)), path);
  std::vector<RawRecord> records = {{.name = "archive/", .content = ""}};
  for (const FileRecord& record : file.records()) {
    const std::string content(as_text(file.bytes_of(record).view));
    records.push_back(make("archive/" + record.name, content));
  }
  std::reverse(records.begin() + 1, records.end());
  return RawZip(records).bytes();
}

class DeflatedTest : public ::testing::Test {
 protected:
  DeflatedTest() {
    save(testing::sample_checkpoint(3), folder_ / "a.pt", {.info = testing::sample_info(3)});
  }
  void pack(const auto& make) { write_file(packed_, packed_again(folder_ / "a.pt", make)); }

  TempFolder folder_;
  const std::string packed_ = folder_ / "packed.pt";
};

TEST_F(DeflatedTest, IsTheCheckpointThatItWas) {
  pack(testing::deflated);
  EXPECT_EQ(load(packed_), testing::sample_checkpoint(3));
  const VerifyReport report = verify(packed_);
  EXPECT_TRUE(report.ok()) << report.summary();
  EXPECT_TRUE(report.has_manifest);
  const SourceInfo info = open_source(packed_)->info();
  EXPECT_EQ(info.containers, std::vector<std::string>({"deflate"}));
  EXPECT_EQ(info.bytes, std::filesystem::file_size(packed_));
  EXPECT_EQ(open_checkpoint(packed_).info().timestamp->batch, 3);
}

TEST_F(DeflatedTest, IsReadWhereOnlySomeRecordsAreCompressed) {
  pack([](const std::string& name, const std::string& content) {
    const bool is_compressed = name.find("/data/") != std::string::npos;
    return is_compressed ? testing::deflated(name, content)
                         : RawRecord{.name = name, .content = content};
  });
  EXPECT_EQ(load(packed_), testing::sample_checkpoint(3));
}

TEST_F(DeflatedTest, NamesTheRecordThatIsDamaged) {
  for (const bool is_long : {false, true}) {
    pack([&](const std::string& name, const std::string& content) {
      RawRecord record = testing::deflated(name, content);
      if (!name.ends_with("/data/1")) return record;
      if (is_long) {
        *record.expanded_size -= 1;
      } else {
        *record.expanded_crc ^= 1;
      }
      return record;
    });
    EXPECT_THAT(message_of<CorruptError>([&] { load(packed_); }),
                AllOf(HasSubstr("packed.pt: deflate: record data/1 "),
                      HasSubstr(is_long ? "bytes, but the zip directory says" : "its CRC")));
  }
}

TEST_F(DeflatedTest, ManyFlippedBitsAreNeverReadAsSomethingElse) {
  pack(testing::deflated);
  const std::string good = read_file(packed_);
  for (std::size_t at = 0; at < good.size(); at += 97) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    write_file(packed_, bad);
    try {
      EXPECT_EQ(load(packed_), testing::sample_checkpoint(3)) << at;
    } catch (const CorruptError&) {
    } catch (const UnsupportedError&) {  // The flipped bit changed the method or the name.
    }
  }
}

// --- Space reserved first, and filled later ------------------------------------------------------

TEST(SkipDataTest, TensorsWithoutAChecksumAreReadAndCountedApart) {
  const std::string path = kOthers + "skip_data.pt";
  const Value value = load(path);
  EXPECT_EQ(value.at("w").as_tensor().shape, Dims({5}));
  EXPECT_EQ(bytes_at(value, "b"), std::string(12, '\0'));
  const VerifyReport report = verify(path);
  EXPECT_TRUE(report.ok()) << report.summary();
  EXPECT_TRUE(report.has_checksums);
  EXPECT_EQ(report.unchecked, 2U);
  EXPECT_THAT(report.summary(), HasSubstr("2 of which have none"));
  EXPECT_EQ(open_source(path)->content(), "") << "equal CRCs say nothing of equal tensors";
}

TEST(SkipDataTest, TheOtherRecordsAreStillChecked) {
  const TempFolder temp;
  std::string bytes = read_file(kOthers + "skip_data.pt");
  const std::size_t id =
      TorchFile(shared(bytes), "x").find_record(".data/serialization_id")->offset;
  bytes[id] = static_cast<char>(bytes[id] ^ 1);
  write_file(temp / "bad.pt", bytes);
  EXPECT_FALSE(verify(temp / "bad.pt").ok());
}

// --- Classes where the format has none of its own ------------------------------------------------

TEST(WholeModuleTest, OfBeforePyTorch16IsReadBesideItsClass) {
  const std::string path = kOthers + "whole_module_legacy.pt";
  EXPECT_TRUE(verify(path).ok());
  const Value value = load(path);
  EXPECT_EQ(value.at("model").as_foreign().class_name(), "torch.nn.modules.linear.Linear");
  EXPECT_EQ(value.at("w").as_tensor().shape, Dims({3}));
}

TEST(MegatronTest, MetadataOfASubclassIsReadAsPyTorchs) {
  const std::string path = kOthers + "mcore";
  EXPECT_TRUE(verify(path).ok());
  EXPECT_EQ(load(path).at("decoder.w").as_tensor().shape, Dims({2, 3}));
}

TEST(AttributesTest, ThoseOfTensorsAreTold) {
  const TempFolder temp;
  for (const char* out : {"a.pt", "a.safetensors"}) {
    const ConvertResult result = convert(kOthers + "attributes.pt", temp / out);
    EXPECT_THAT(result.lost_attributes, ::testing::ElementsAre(std::pair("p", "partition_dim, tag"),
                                                               std::pair("t", "note")));
  }
}

TEST(TorchScriptTest, TheVersionThatWroteItIsNotGuessed) {
  for (const auto& [label, text] : open_source(kOthers + "script.pt")->info().notes) {
    EXPECT_NE(label, "torch version") << text;
  }
}

// --- Something else in place of a file -----------------------------------------------------------

TEST(GitLfsTest, APointerInAFolderOfPyTorchsIsNoDamage) {
  for (const char* file : {".metadata", "__0_0.distcp"}) {
    const CopiedFolder folder(kOthers + "mcore");
    write_file(folder.file(file), kPointer);
    EXPECT_THAT(message_of<UnsupportedError>([&] { load(folder.path()); }),
                AllOf(HasSubstr(file), HasSubstr("git lfs pull")));
  }
}

TEST(GitLfsTest, APointerInPlaceOfAShardIsNoDamage) {
  const TempFolder temp;
  write_file(temp / "model.safetensors.index.json",
             R"({"metadata":{},"weight_map":{"w":"model-00001-of-00001.safetensors"}})");
  write_file(temp / "model-00001-of-00001.safetensors", kPointer);
  EXPECT_THAT(message_of<UnsupportedError>([&] { load(temp.path()); }),
              AllOf(HasSubstr("model-00001-of-00001.safetensors"), HasSubstr("git lfs pull")));
}

// --- Written by a newer cairn --------------------------------------------------------------------

TEST(NewerCairnTest, VersionsAreComparedAsNumbers) {
  EXPECT_TRUE(is_newer_cairn("cairn 999.0.0"));
  EXPECT_TRUE(is_newer_cairn("cairn 10000"));
  EXPECT_FALSE(is_newer_cairn(kWriter));
  EXPECT_FALSE(is_newer_cairn("cairn 0.0.9"));
  EXPECT_FALSE(is_newer_cairn("PyTorch"));
  EXPECT_FALSE(is_newer_cairn("cairn of stones"));
}

TEST(NewerCairnTest, AFolderIsReadAndItsManifestNamedThatIsNot) {
  const TempFolder temp;
  write_dcp(*local_store(), Dict{{"a", 1}}, temp / "model", false);
  const std::string path = temp / "model/" + std::string(kFolderManifest);
  std::string text = read_file(path);
  text.replace(text.find("\"schema\":1"), 10, "\"schema\":2");
  text.replace(text.find(kWriter), std::string(kWriter).size(), "cairn 9.1.0");
  seal(text, "\"xxh3_128\":\"");
  EXPECT_THROW(parse_folder_manifest(text), ReaderMissingError);
  write_file(path, text);
  EXPECT_EQ(load(temp / "model").at("a"), Value(1));
  EXPECT_TRUE(verify(temp / "model").ok());
  const SourceInfo info = open_source(temp / "model")->info();
  EXPECT_EQ(info.writer, "a newer cairn");
  EXPECT_THAT(info.notes,
              ::testing::Contains(::testing::Pair(
                  "checksums", AllOf(HasSubstr("cairn 9.1.0"), HasSubstr("use a newer cairn")))));
}

// --- Written by cairn, and read again ------------------------------------------------------------

TEST(WrittenFolderTest, LongNamesAreReadAgain) {
  const TempFolder temp;
  const std::string name(200'000, 'n');
  Dict dict{{name, 1}};
  write_dcp(*local_store(), dict, temp / "model", false);
  EXPECT_EQ(load(temp / "model"), Value(dict));
  EXPECT_TRUE(verify(temp / "model").ok());
}

TEST(WrittenFolderTest, TensorsOfMoreDimensionsThanPyTorchHasAreNotWritten) {
  const TempFolder temp;
  const Dict dict{{"w", make_tensor(DType::kUInt8, Dims(65, 1), shared("x"))}};
  EXPECT_THAT(
      message_of<UnsupportedError>([&] { write_dcp(*local_store(), dict, temp / "model", false); }),
      AllOf(HasSubstr("\"w\""), HasSubstr("65 dimensions")));
  EXPECT_FALSE(std::filesystem::exists(temp / "model"));
}

}  // namespace
}  // namespace cairn
