// A model in several files with an index. The files that the index names must exist, and no other
// files are opened.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/error.h"

#include "checkpoint/open/source.h"
#include "io/file.h"
#include "testing/message_of.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"
#include "tests/format/safetensors_text.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::safetensors_entry;
using testing::safetensors_file;
using testing::TempFolder;

const std::string kA =
    safetensors_file("{" + safetensors_entry("a", "U8", "[1]", "[0,1]") + "}", "x");

std::string index_of(const std::string& weight_map) {
  return R"({"metadata": {"total_size": 1, "dtype": "U8", "x": [null]}, "weight_map": {)" +
         weight_map + "}}";
}

class ShardIndexSourceTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& bytes) const {
    testing::write_file(temp_ / name, bytes);
  }
  void write_index(const std::string& weight_map) const {
    write("model.safetensors.index.json", index_of(weight_map));
  }
  Value read(const std::string& name = "model.safetensors.index.json") const {
    return open_source(temp_ / name)->read();
  }
  std::string problem() const {
    return message_of([&] { read(); });
  }

  TempFolder temp_;
};

TEST_F(ShardIndexSourceTest, TensorsComeFromTheFilesThatTheIndexNames) {
  write("one.safetensors", kA);
  testing::write_file(
      temp_ / "two.bin",
      testing::encoded(Dict{{"b", make_tensor(DType::kUInt8, {1}, testing::shared("y"))}}));
  write_index(R"("b": "two.bin", "a": "one.safetensors")");
  for (const std::string& path : {temp_.path(), temp_ / "model.safetensors.index.json"}) {
    const auto source = open_source(path);
    EXPECT_EQ(as_text(source->read().at("a").as_tensor().contiguous_bytes().view), "x");
    EXPECT_EQ(as_text(source->read().at("b").as_tensor().contiguous_bytes().view), "y");
    EXPECT_EQ(source->info().format, "safetensors_index");
    EXPECT_TRUE(source->verify(Verify::kFull).ok());
    EXPECT_FALSE(source->verify(Verify::kFull).has_checksums);
  }
}

TEST_F(ShardIndexSourceTest, AVariantsIndexAndASingleFileStandForTheirFolderToo) {
  write("model.fp16-00001-of-00001.safetensors", kA);
  write("model.safetensors.index.fp16.json",
        index_of(R"("a": "model.fp16-00001-of-00001.safetensors")"));
  EXPECT_EQ(read("").as_dict().size(), 1U);
  write("model.safetensors.index.fp32.json",
        index_of(R"("a": "model.fp16-00001-of-00001.safetensors")"));
  EXPECT_THROW(read(""), UsageError);
  write("model.safetensors", kA);
  EXPECT_EQ(read("").as_dict().size(), 1U);
}

TEST_F(ShardIndexSourceTest, AMissingShardIsNamed) {
  write_index(R"("a": "model-00001-of-00002.safetensors")");
  EXPECT_THROW(read(), NotFoundError);
  EXPECT_THAT(problem(), HasSubstr("model-00001-of-00002.safetensors"));
}

TEST_F(ShardIndexSourceTest, ATensorThatItsShardLacksIsNamed) {
  write("one.safetensors", kA);
  write_index(R"("a": "one.safetensors", "missing": "one.safetensors")");
  EXPECT_THROW(read(), CorruptError);
  EXPECT_THAT(problem(), HasSubstr("\"missing\""));
  EXPECT_FALSE(verify(temp_ / "model.safetensors.index.json").ok());
}

TEST_F(ShardIndexSourceTest, FilesElsewhereAreNotOpened) {
  write("one.safetensors", kA);
  for (const char* name : {"../one.safetensors", "/etc/passwd", "..", ".", "", "a/one.safetensors",
                           "a\\\\one.safetensors", "one\\u0000.safetensors"}) {
    write_index("\"a\": \"" + std::string(name) + "\"");
    EXPECT_THROW(read(), CorruptError) << name;
  }
}

TEST_F(ShardIndexSourceTest, AnIndexIsNoShard) {
  write_index(R"("a": "model.safetensors.index.json")");
  EXPECT_THROW(read(), CorruptError);
  posix_file_system().make_folders(temp_ / "folder");
  write_index(R"("a": "folder")");
  EXPECT_THROW(read(), CorruptError);
  posix_file_system().make_folders(temp_ / "loop");
  posix_file_system().make_link(".", temp_ / "loop/model.safetensors");
  EXPECT_THROW(read("loop"), CorruptError);
}

TEST_F(ShardIndexSourceTest, ADamagedShardIsNamed) {
  write("one.safetensors", kA.substr(0, kA.size() - 1));
  write_index(R"("a": "one.safetensors")");
  EXPECT_THROW(read(), CorruptError);
  EXPECT_THAT(problem(), HasSubstr("one.safetensors"));
}

TEST_F(ShardIndexSourceTest, WhatIsNoIndexIsCorrupt) {
  write("one.safetensors", kA);
  for (const char* text :
       {R"({"weight_map": {"a": 1}})", R"({"weight_map": ["one.safetensors"]})",
        R"({"weight_map": {"a": "one.safetensors"}} x)",
        R"({"weight_map": {"a": "one.safetensors")", R"({"weight_map": {}, "weight_map": {}})",
        R"({"weight_map": {"a": "one.safetensors", "a": "one.safetensors"}})",
        R"({"x": "weight_map"})", "{\"weight_map\": {}}\xff"}) {
    write("model.safetensors.index.json", text);
    EXPECT_THROW(read(), CorruptError) << text;
  }
  write("model.safetensors.index.json", "{\"x\": \"\\\"weight_map\\\"\"}");
  EXPECT_THROW(read(), UnsupportedError) << "any JSON text";
}

// A file of one rank that holds "a" with shape `shape` at `offsets`.
std::string distributed_shard(const std::string& offsets, const std::string& shape,
                              const std::string& data) {
  return safetensors_file(
      R"({"__metadata__":{"DCP_VERSION":"1.0","DCP_SHARDING_INFO":"{\"a\": {\"saved_offsets\": )" +
          offsets + "}}\"}," +
          safetensors_entry("a", "U8", shape, "[0," + std::to_string(data.size()) + "]") + "}",
      data);
}

constexpr const char* kShard1 = "shard-00001-model-00001-of-00001.safetensors";
constexpr const char* kShard2 = "shard-00002-model-00001-of-00001.safetensors";

TEST_F(ShardIndexSourceTest, ShardsOfADistributedCheckpointArePutTogether) {
  write(kShard1, distributed_shard("[0, 0]", "[2,1]", "ac"));
  write(kShard2, distributed_shard("[0, 1]", "[2,1]", "bd"));
  const Value whole = read("");
  EXPECT_EQ(as_text(whole.at("a").as_tensor().contiguous_bytes().view), "abcd");
  EXPECT_EQ(whole.at("a").as_tensor().shape, (std::vector<std::int64_t>{2, 2}));
}

TEST_F(ShardIndexSourceTest, OneShardOfADistributedCheckpointIsRefusedByName) {
  write(kShard1, distributed_shard("[0, 0]", "[2,1]", "ac"));
  EXPECT_THROW(read(kShard1), UnsupportedError);
  EXPECT_THAT(message_of([&] { read(kShard1); }),
              HasSubstr("one rank's shard of a torch.distributed.checkpoint folder"));
}

// Without save_distributed, HuggingFaceStorageWriter gives whole files the same description as
// shards.
TEST_F(ShardIndexSourceTest, WholeTensorsOfADistributedCheckpointAreRead) {
  const std::string name = "model-00001-of-00001.safetensors";
  write(name, distributed_shard("[0, 0]", "[2,2]", "abcd"));
  write_index("\"a\": \"" + name + "\"");
  for (const char* path : {"", "model.safetensors.index.json", name.c_str()}) {
    EXPECT_EQ(as_text(read(path).at("a").as_tensor().contiguous_bytes().view), "abcd") << path;
    EXPECT_TRUE(verify(temp_ / path).ok()) << path;
    for (const auto& [key, text] : open_source(temp_ / path)->info().notes) {
      // This note is as long as a header, and of no use to readers.
      EXPECT_NE(key, "DCP_SHARDING_INFO");
    }
  }
}

// Every process writes a file with the same name, and the parts of the last process remain.
TEST_F(ShardIndexSourceTest, PartsThatSeveralProcessesSavedOverOneAnotherAreNoCheckpoint) {
  const std::string name = "model-00001-of-00001.safetensors";
  write_index("\"a\": \"" + name + "\"");
  write(name, distributed_shard("[1, 0]", "[1,2]", "cd"));
  EXPECT_THROW(read(), UnsupportedError);
  EXPECT_THAT(problem(), HasSubstr("save_distributed=True"));
  // The first process's parts begin at 0, like whole tensors. The index counts the bytes of all
  // processes.
  write("model.safetensors.index.json",
        R"({"metadata": {"total_size": 4}, "weight_map": {"a": ")" + name + "\"}}");
  write(name, distributed_shard("[0, 0]", "[1,2]", "ab"));
  EXPECT_THROW(read(), CorruptError);
  EXPECT_THAT(problem(), HasSubstr("counts 4 bytes of tensors, its files hold 2"));
  EXPECT_FALSE(verify(temp_ / "model.safetensors.index.json").ok());
  write(name, distributed_shard("7", "[1,2]", "ab"));
  EXPECT_THROW(read(), CorruptError);
}

TEST_F(ShardIndexSourceTest, ShardsThatDoNotFillTheirTensorAreCorrupt) {
  const std::string good = distributed_shard("[0, 0]", "[2,1]", "ac");
  write(kShard1, good);
  for (const char* offsets :
       {"[0, 2]", "[1, 0]", "[0]", "[0, 0, 0]", "[0, -1]", "[0, 9223372036854775807]",
        "[0, 18446744073709551615]", "[0, 4611686018427387904]", "7", "[0, 1.5]"}) {
    write(kShard2, distributed_shard(offsets, "[2,1]", "bd"));
    EXPECT_THROW(read(""), CorruptError) << offsets;
  }
  write(kShard2, distributed_shard("[0, 1]", "[2]", "bd"));
  EXPECT_THROW(read(""), CorruptError);
}

}  // namespace
}  // namespace cairn
