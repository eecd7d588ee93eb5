// In formats without checksums, the files that cairn writes have cairn's own checksums.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/convert.h"
#include "cairn/error.h"
#include "cairn/format/safetensors.h"

#include "checkpoint/open/source.h"
#include "checkpoint/plan/folder_manifest.h"
#include "checkpoint/plan/write_dcp.h"
#include "core/hash/xxh3.h"
#include "storage/local/local_store.h"
#include "testing/copied_folder.h"
#include "testing/file_bytes.h"
#include "testing/message_of.h"
#include "testing/sim_file_system.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"

namespace cairn {
namespace {

using ::testing::Contains;
using testing::CopiedFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kData;
using ::testing::Key;
using testing::message_of;
using ::testing::Not;
using testing::SimFileSystem;
using testing::TempFolder;

TensorView bytes_tensor(const std::string& bytes) {
  return make_tensor(DType::kUInt8, {static_cast<std::int64_t>(bytes.size())},
                     testing::shared(bytes));
}

Value sample() {
  TensorView strided = bytes_tensor("abcdef");
  strided.shape = {3};
  strided.strides = {2};
  return Dict{{"w", bytes_tensor("weights")},
              {"b", strided},
              {"empty", bytes_tensor("")},
              {"scalar", make_tensor(DType::kUInt8, {}, testing::shared("s"))}};
}

// Whether verify() finds damage.
bool is_found(FileSystem& files, const std::string& path, Verify how = Verify::kFull) {
  try {
    return !verify(path, how, local_store(files)).ok();
  } catch (const UnsupportedError&) {  // A dtype that does not exist.
    return true;
  }
}

void put(FileSystem& files, const std::string& path, const std::string& bytes) {
  files.remove(path);
  files.create(path, {})->write(as_bytes(bytes));
}

std::string get(FileSystem& files, const std::string& path) {
  return std::string(as_text(testing::file_bytes(files, path).view));
}

// Flips bits of every byte of the file, and cuts the file to every length.
void expect_all_damage_is_found(FileSystem& files, const std::string& path,
                                const std::string& file) {
  const std::string good = get(files, file);
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const int bit : {0, 3, 5}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      put(files, file, bad);
      EXPECT_TRUE(is_found(files, path)) << file << ", byte " << i << ", bit " << bit;
    }
    put(files, file, good.substr(0, i));
    EXPECT_TRUE(is_found(files, path)) << file << ", cut to " << i;
  }
  put(files, file, good);
  EXPECT_FALSE(is_found(files, path));
}

struct ChecksumsTest : ::testing::Test {
  ChecksumsTest() {
    save(sample(), "/in.pt", {.store = local_store(disk)});
    convert("/in.pt", "/out.safetensors", {.store = local_store(disk)});
  }
  SimFileSystem disk;
};

TEST_F(ChecksumsTest, EveryByteOfASafetensorsFileCounts) {
  const VerifyReport report = verify("/out.safetensors", Verify::kFull, local_store(disk));
  EXPECT_TRUE(report.has_checksums);
  EXPECT_THAT(report.summary(), HasSubstr("every byte accounted for"));
  expect_all_damage_is_found(disk, "/out.safetensors", "/out.safetensors");
}

TEST_F(ChecksumsTest, TheDamagedTensorIsNamedAndNothingIsLoaded) {
  std::string bytes = get(disk, "/out.safetensors");
  bytes[bytes.find("weights")] = 'W';
  put(disk, "/out.safetensors", bytes);
  const VerifyReport report = verify("/out.safetensors", Verify::kFull, local_store(disk));
  ASSERT_EQ(report.damage.size(), 1U);
  EXPECT_THAT(report.damage.front().tensors, ElementsAre("w"));
  EXPECT_EQ(report.damage.front().end - report.damage.front().begin, 7U);
  EXPECT_THROW(load("/out.safetensors", {.store = local_store(disk)}), CorruptError);
  EXPECT_FALSE(is_found(disk, "/out.safetensors", Verify::kQuick)) << "no tensor is read";
}

TEST_F(ChecksumsTest, TheMetadataIsTextsAndSaysWhoWroteThem) {
  const SafetensorsFile file(testing::file_bytes(disk, "/out.safetensors"), "out");
  EXPECT_THAT(file.metadata(),
              ElementsAre(::testing::Pair("format", "pt"), Key("cairn.writer"), Key("cairn.xxh3")));
  EXPECT_EQ(file.find_metadata("cairn.xxh3")->size(), 32U + 3 * 16U);
  const SourceInfo info = open_source("/out.safetensors", {.store = local_store(disk)})->info();
  EXPECT_THAT(info.writer, HasSubstr("cairn"));
  EXPECT_THAT(info.notes, ElementsAre(::testing::Pair("format", "pt")));
}

TEST_F(ChecksumsTest, AreMadeAnewWhenAFileIsConvertedToAnother) {
  convert("/out.safetensors", "/less.safetensors", {.exclude = {"w"}, .store = local_store(disk)});
  convert("/out.safetensors", "/same.safetensors", {.store = local_store(disk)});
  EXPECT_FALSE(is_found(disk, "/less.safetensors"));
  EXPECT_EQ(get(disk, "/same.safetensors"), get(disk, "/out.safetensors"));
}

// A folder of shards with an index, "/shards". Each tensor of `value` has a file of its own.
void write_shards(FileSystem& files, const Value& value, const std::string& folder = "/shards") {
  save(value, folder + ".pt", {.store = local_store(files)});
  convert(folder + ".pt", folder, {.shard_bytes = 1, .store = local_store(files)});
}

constexpr const char* kShardIndex = "/shards/model.safetensors.index.json";
constexpr const char* kFirstShard = "/shards/model-00001-of-00002.safetensors";
constexpr const char* kSecondShard = "/shards/model-00002-of-00002.safetensors";

const Dict kTwoTensors = {{"a", bytes_tensor("weights")}, {"b", bytes_tensor("biases!")}};

struct ShardsTest : ::testing::Test {
  ShardsTest() { write_shards(disk, kTwoTensors); }

  std::string problem(Verify how = Verify::kFull) {
    return verify("/shards", how, local_store(disk)).summary();
  }

  SimFileSystem disk;
};

TEST_F(ShardsTest, EveryByteOfTheFolderCounts) {
  EXPECT_THAT(problem(), HasSubstr("every byte accounted for"));
  for (const std::string& name : disk.list("/shards")) {
    expect_all_damage_is_found(disk, "/shards", "/shards/" + name);
  }
}

TEST_F(ShardsTest, EveryOtherByteInTheIndexIsFound) {
  const std::string good = get(disk, kShardIndex);
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (int flip = 1; flip < 256; ++flip) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      put(disk, kShardIndex, bad);
      ASSERT_TRUE(is_found(disk, kShardIndex)) << "byte " << i << ", flip " << flip;
    }
  }
}

TEST_F(ShardsTest, TheIndexsChecksumsAreTextsOfItsMetadata) {
  const std::string text = get(disk, kShardIndex);
  EXPECT_THAT(text, HasSubstr("\"metadata\": {\n    \"cairn.writer\": \"cairn "));
  EXPECT_THAT(text, HasSubstr("\"total_size\": 14\n"));
  const SourceInfo info = open_source("/shards", {.store = local_store(disk)})->info();
  EXPECT_THAT(info.writer, HasSubstr("cairn"));
  EXPECT_THAT(info.notes, Not(Contains(Key(HasSubstr("cairn.")))));
  EXPECT_THAT(info.notes, Not(Contains(Key("index checksum"))));
}

TEST_F(ShardsTest, ADamagedNameInTheIndexIsNoMissingShard) {
  std::string text = get(disk, kShardIndex);
  text[text.rfind("00001-of")] = '9';
  put(disk, kShardIndex, text);
  EXPECT_THAT(problem(), HasSubstr("the index does not have the XXH3-128 that was written"));
}

TEST_F(ShardsTest, AMissingShardIsNamed) {
  disk.remove(kSecondShard);
  EXPECT_THAT(message_of([&] { problem(); }), HasSubstr("model-00002-of-00002.safetensors"));
}

TEST_F(ShardsTest, ExchangedShardsAreFound) {
  const std::string first = get(disk, kFirstShard);
  put(disk, kFirstShard, get(disk, kSecondShard));
  put(disk, kSecondShard, first);
  for (const Verify how : {Verify::kQuick, Verify::kFull}) {
    EXPECT_THAT(problem(how), HasSubstr("model-00001-of-00002.safetensors"));
    EXPECT_THAT(problem(how), HasSubstr("not the shard that the index was written with"));
  }
}

// The other save has the same names, shapes and sizes.
TEST_F(ShardsTest, AShardOfAnotherSaveIsFound) {
  write_shards(disk, Dict{{"a", bytes_tensor("Weights")}, {"b", bytes_tensor("biases!")}},
               "/older");
  put(disk, kFirstShard, get(disk, "/older/model-00001-of-00002.safetensors"));
  for (const Verify how : {Verify::kQuick, Verify::kFull}) {
    EXPECT_THAT(problem(how), HasSubstr("record model-00001-of-00002.safetensors"));
    EXPECT_THAT(problem(how), HasSubstr("not the shard that the index was written with"));
  }
  EXPECT_THROW(load("/shards", {.store = local_store(disk)}), CorruptError);
  put(disk, kFirstShard, "nothing of safetensors");
  EXPECT_TRUE(is_found(disk, "/shards"));
}

TEST_F(ShardsTest, AnIndexWithoutAChecksumIsSaidToHaveNone) {
  put(disk, kShardIndex,
      R"({"metadata": {"total_size": 14}, "weight_map": {)"
      R"("a": "model-00001-of-00002.safetensors", )"
      R"("b": "model-00002-of-00002.safetensors"}})");
  EXPECT_FALSE(is_found(disk, "/shards"));
  EXPECT_FALSE(verify("/shards", Verify::kFull, local_store(disk)).has_manifest);
  EXPECT_THAT(open_source("/shards", {.store = local_store(disk)})->info().notes,
              Contains(Key("index checksum")));
}

TEST_F(ChecksumsTest, EveryByteOfADcpFolderCounts) {
  write_dcp(*local_store(disk), Dict{{"w", bytes_tensor("weights")}, {"step", 7}}, "/dcp");
  EXPECT_THAT(verify("/dcp", Verify::kFull, local_store(disk)).summary(),
              HasSubstr("every byte accounted"));
  for (const std::string& name : disk.list("/dcp")) {
    expect_all_damage_is_found(disk, "/dcp", "/dcp/" + name);
  }
}

TEST_F(ChecksumsTest, QuickFindsDamageOfTheDcpMetadata) {
  write_dcp(*local_store(disk), Dict{{"w", bytes_tensor("weights")}, {"b", bytes_tensor("bias")}},
            "/dcp");
  std::string metadata = get(disk, "/dcp/.metadata");
  metadata[metadata.find("weight") == std::string::npos ? metadata.size() / 2
                                                        : metadata.find("weight")] ^= 1;
  put(disk, "/dcp/.metadata", metadata);
  EXPECT_TRUE(is_found(disk, "/dcp", Verify::kQuick));
}

// torch.distributed.checkpoint leaves files in place that it does not know, such as cairn's
// manifest.
TEST(FolderManifestTest, SaysNothingOfAFolderThatPyTorchSavedIntoAgain) {
  const TempFolder temp;
  write_dcp(*local_store(), Dict{{"a", 1}}, temp / "ours");
  const CopiedFolder theirs(kData + "/torch-2.6/dcp");
  std::filesystem::copy_file(temp / "ours/.cairn_manifest.json",
                             theirs.path() + "/.cairn_manifest.json");
  const VerifyReport report = verify(theirs.path());
  EXPECT_TRUE(report.ok()) << report.summary();
  EXPECT_FALSE(report.has_manifest);
}

TEST(FolderManifestTest, RefusesWhatWouldBeReadForNothingOrForEver) {
  EXPECT_THROW(
      parse_folder_manifest(write_folder_manifest({.files = {{"a", 1, "x"}, {"a", 1, "x"}}})),
      CorruptError);
  EXPECT_THROW(parse_folder_manifest(write_folder_manifest({.files = {{"../a", 1, "x"}}})),
               CorruptError);
  EXPECT_THROW(parse_folder_manifest(std::string(1 << 20, '[')), CorruptError);
  EXPECT_EQ(
      parse_folder_manifest(write_folder_manifest({.files = {{"a", 1, "x"}}})).files.front().name,
      "a");
}

TEST(FolderManifestTest, ThatOfThousandsOfRanksIsRead) {
  std::vector<ManifestFile> files;
  for (int rank = 0; rank < 4096; ++rank) {
    files.push_back({.name = "__" + std::to_string(rank) + "_0-0123456789abcdef.distcp",
                     .bytes = 4,
                     .xxh3_128 = std::string(32, '0')});
  }
  EXPECT_EQ(parse_folder_manifest(write_folder_manifest({.files = files})).files.size(),
            files.size());
}

TEST(FolderManifestTest, NewerOnesArePassedOver) {
  std::string text = write_folder_manifest({});
  text.replace(text.find("\"schema\":1"), 10, "\"schema\":2");
  seal(text, "\"xxh3_128\":\"");
  EXPECT_THROW(parse_folder_manifest(text), UnsupportedError);
}

TEST(NoChecksumsTest, IsSaidPlainly) {
  for (const char* file : {"/torch-2.14/dtypes.safetensors", "/cairn/tiny.safetensors"}) {
    const VerifyReport report = verify(kData + file);
    EXPECT_FALSE(report.has_checksums);
    EXPECT_THAT(report.summary(), HasSubstr("no checksums: only its structure was checked"));
  }
}

TEST(Xxh3Test, ASealIsOfAllOfTheText) {
  std::string text = "a <" + std::string(kSealDigits, '0') + "> b";
  seal(text, "<");
  EXPECT_EQ(check_seal(text, "<"), Seal::kGood);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string bad = text;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    EXPECT_NE(check_seal(bad, "<"), Seal::kGood) << i;
  }
  EXPECT_EQ(check_seal("nothing", "<"), Seal::kNone);
}

}  // namespace
}  // namespace cairn
