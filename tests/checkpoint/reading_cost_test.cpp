// The cost of opening and loading a checkpoint of each format from far away, where each read is a
// request. The tests open through open_source(), which also has to find out the format.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/convert.h"
#include "cairn/format/safetensors.h"

#include "checkpoint/open/source.h"
#include "checkpoint/plan/write_dcp.h"
#include "format/tar/writer.h"
#include "storage/local/local_store.h"
#include "testing/counting_files.h"
#include "testing/descriptor_limit.h"
#include "testing/pattern.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"

namespace cairn {
namespace {

using testing::CountingFiles;
using testing::encoded;
using testing::shared;
using testing::StringSink;
using testing::TempFolder;
using testing::write_file;

TensorView pattern_tensor(std::size_t bytes) {
  return make_tensor(DType::kUInt8, {static_cast<std::int64_t>(bytes)},
                     shared(testing::pattern(bytes)));
}

Value model(std::size_t count, std::size_t bytes) {
  Dict dict;
  for (std::size_t i = 0; i < count; ++i) {
    dict.set("layers." + std::to_string(i) + ".weight", pattern_tensor(bytes + i));
  }
  return dict;
}

// A model whose names have the given length.
Value long_named(std::size_t count, std::size_t name_size) {
  Dict dict;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string number = std::to_string(i);
    dict.set(std::string(name_size - number.size(), 'n') + number, pattern_tensor(8));
  }
  return dict;
}

std::string safetensors_text(const Value& value) {
  std::vector<NamedTensor> named;
  for (const auto& [name, tensor] : value.as_dict()) {
    named.emplace_back(name.as_str(), tensor.as_tensor());
  }
  StringSink sink;
  SafetensorsPlan(std::move(named)).write(sink);
  return sink.text;
}

std::string tar_of(const std::string& content) {
  StringSink sink;
  tar::Writer tar(sink, "composer_states.pt", content.size());
  tar.write(as_bytes(content));
  tar.finish();
  return sink.text;
}

class ReadingCostTest : public ::testing::Test {
 protected:
  Value open_and_read(const std::string& path) {
    return open_source(path, {.store = local_store(files_)})->read();
  }

  TempFolder folder_;
  CountingFiles files_{posix_file_system()};
};

TEST_F(ReadingCostTest, ATorchFileTakesTwoReads) {
  for (const auto& [count, bytes] :
       {std::pair<std::size_t, std::size_t>{1, 4}, {3, 4 << 20}, {2000, 1000}}) {
    write_file(folder_ / "a.pt", encoded(model(count, bytes)));
    files_.reset();
    EXPECT_EQ(open_and_read(folder_ / "a.pt").as_dict().size(), count);
    EXPECT_LE(files_.reads(), 2U) << count;
  }
}

// The zip's directory is larger than the part of the file's end that the first read covers. So only
// the second read can show how long the pickle is.
TEST_F(ReadingCostTest, ATorchFileOfLongNamesTakesTwoReads) {
  for (const auto& [count, name_size] :
       {std::pair<std::size_t, std::size_t>{20'000, 40}, {10'000, 300}, {8000, 1500}}) {
    write_file(folder_ / "a.pt", encoded(long_named(count, name_size)));
    files_.reset();
    EXPECT_EQ(open_and_read(folder_ / "a.pt").as_dict().size(), count);
    EXPECT_EQ(files_.reads(), 2U) << name_size;
    EXPECT_LE(files_.bytes(), 2 * count * (200 + name_size)) << name_size;
  }
}

// The first tensors of the file have names unlike those of the other tensors.
TEST_F(ReadingCostTest, ATorchFileWhosePickleBeginsUnlikeTheRestIsNotReadForThat) {
  constexpr std::size_t kCount = 20'000;
  Dict dict = long_named(64, 2000).as_dict();
  for (std::size_t i = 0; i < kCount; ++i) {
    dict.set("w" + std::to_string(i), pattern_tensor(4096));
  }
  write_file(folder_ / "a.pt", encoded(dict));
  EXPECT_EQ(open_and_read(folder_ / "a.pt").as_dict().size(), kCount + 64);
  EXPECT_EQ(files_.reads(), 2U);
  EXPECT_LE(files_.bytes(), std::uint64_t{40} << 20) << "of more than 80";
}

// An open file does not keep the pickle in memory. The pickle is read again to make the object.
TEST_F(ReadingCostTest, ATorchFileWhosePickleIsLargeIsOpenedWithTwoReads) {
  const std::size_t text = std::size_t{70} << 20;
  write_file(folder_ / "a.pt",
             encoded(Dict{{"text", std::string(text, 'x')}, {"model", model(3, 4 << 20)}}));
  const auto source = open_source(folder_ / "a.pt", {.store = local_store(files_)});
  source->info();
  EXPECT_EQ(files_.reads(), 2U);
  EXPECT_LE(files_.bytes(), std::uint64_t{2} << 20);
  files_.reset();
  EXPECT_EQ(source->read().at("text").as_str().size(), text);
  EXPECT_EQ(files_.reads(), 1U);
}

TEST_F(ReadingCostTest, ASafetensorsFileTakesOneRead) {
  write_file(folder_ / "a.safetensors", safetensors_text(model(5000, 100)));
  EXPECT_EQ(open_and_read(folder_ / "a.safetensors").as_dict().size(), 5000U);
  EXPECT_EQ(files_.reads(), 1U);
}

// Headers over 1 MiB, or over 128 KiB if the extension is another one: the first read shows how
// long the header is.
TEST_F(ReadingCostTest, ASafetensorsFileWithALongHeaderTakesTwoReads) {
  const std::string text = safetensors_text(long_named(10'000, 200));
  for (const char* name : {"a.safetensors", "a.bin"}) {
    write_file(folder_ / name, text);
    files_.reset();
    EXPECT_EQ(open_and_read(folder_ / name).as_dict().size(), 10'000U);
    EXPECT_EQ(files_.reads(), 2U) << name;
  }
}

// Small tensors lie near one another: verifying reads a MiB of them at a time.
TEST_F(ReadingCostTest, ManySmallTensorsAreLoadedAndVerifiedWithFewReads) {
  const Value value = model(3000, 1000);
  write_file(folder_ / "a.pt", encoded(value));
  convert(folder_ / "a.pt", folder_ / "a.safetensors");
  for (const char* name : {"a.pt", "a.safetensors"}) {
    files_.reset();
    const Value loaded = load(folder_ / name, {.store = local_store(files_)});
    EXPECT_LE(files_.reads(), 10U) << name;
    EXPECT_EQ(loaded, value) << name;
  }
}

TEST_F(ReadingCostTest, ADcpFolderTakesThreeReads) {
  const Value value = Dict{{"model", model(300, 5000)}, {"step", 7}, {"name", "a"}};
  write_dcp(*local_store(), value, folder_ / "dcp");
  const auto source = open_source(folder_ / "dcp", {.store = local_store(files_)});
  const Value read = source->read();
  EXPECT_EQ(files_.reads(), 3U) << ".metadata, the manifest, and what stands around the elements";
  EXPECT_LE(files_.bytes(), std::filesystem::file_size(folder_ / "dcp/.metadata") + 302 * 4096);
  files_.reset();
  for (const char* name : {"layers.7.weight", "layers.31.weight"}) {
    const SharedBytes bytes = read.at("model").at(name).as_tensor().contiguous_bytes();
    EXPECT_EQ(bytes.view.size(), value.at("model").at(name).as_tensor().storage->size());
  }
  EXPECT_EQ(files_.reads(), 2U);
  EXPECT_EQ(files_.bytes(), 2 * 5000U + 7 + 31) << "their bytes, and no others";
  EXPECT_EQ(read, value);
}

// Verifying, asking for the info and loading also need the manifest, but nothing is read twice.
TEST_F(ReadingCostTest, AnOpenDcpFolderIsReadOnceHoweverOftenItIsAsked) {
  const Value value = Dict{{"model", model(300, 5000)}, {"step", 7}};
  write_dcp(*local_store(), value, folder_ / "dcp");
  const auto store = local_store(files_);
  const Checkpoint opened = open_checkpoint(folder_ / "dcp", store);
  EXPECT_EQ(files_.reads(), 1U) << ".metadata";
  EXPECT_TRUE(opened.verify(Verify::kQuick).ok());
  EXPECT_EQ(files_.reads(), 3U) << "the manifest, and the bytes around the elements";
  files_.reset();
  opened.info();
  EXPECT_EQ(files_.reads(), 0U);

  const Value loaded = load(folder_ / "dcp", {.verify = Verify::kQuick, .store = store});
  EXPECT_EQ(files_.reads(), 3U);
  EXPECT_EQ(loaded, value);
  files_.reset();
  const Checkpoint asked = open_checkpoint(folder_ / "dcp", store);
  asked.info();
  asked.info();
  EXPECT_EQ(files_.reads(), 3U);
}

// Large objects are not read ahead together with small objects.
TEST_F(ReadingCostTest, ALargeObjectOfADcpFolderIsReadOnceToVerifyAndLoadIt) {
  const std::size_t text = std::size_t{8} << 20;
  const Value value = Dict{{"model", model(3, 5000)}, {"text", std::string(text, 'x')}};
  write_dcp(*local_store(), value, folder_ / "dcp");
  const Value loaded =
      load(folder_ / "dcp", {.verify = Verify::kQuick, .store = local_store(files_)});
  EXPECT_LE(files_.bytes(), text + (std::size_t{1} << 20));
  EXPECT_EQ(loaded, value);
}

TEST_F(ReadingCostTest, OneTensorOfADcpFolderTakesItsBytesAndWhatStandsAroundThem) {
  const Value value = model(300, 100'000);
  write_dcp(*local_store(), value, folder_ / "dcp");
  const Checkpoint opened = open_checkpoint(folder_ / "dcp", local_store(files_));
  const Value read = load(opened, {.verify = Verify::kQuick});
  const std::shared_ptr<const Storage> storage = read.at("layers.7.weight").as_tensor().storage;
  for (const Verify how : {Verify::kQuick, Verify::kWhatIsRead}) {
    std::vector<std::byte> place(storage->size());
    files_.reset();
    EXPECT_TRUE(opened.read({{storage, place}}, how).ok());
    EXPECT_LE(files_.bytes(), 3 * storage->size());
    EXPECT_EQ(as_text(place),
              as_text(value.at("layers.7.weight").as_tensor().contiguous_bytes().view));
  }
}

TEST_F(ReadingCostTest, TensorsOfADcpFolderAreRangesOfOneSource) {
  const Value value = model(3, 100'000);
  write_dcp(*local_store(), value, folder_ / "dcp");
  const Value read = open_and_read(folder_ / "dcp");
  const ByteSource* source = read.at("layers.0.weight").as_tensor().storage->source();
  ASSERT_NE(source, nullptr);
  std::vector<std::vector<std::byte>> places;
  std::vector<ByteSource::Range> ranges;
  for (const auto& [name, tensor] : read.as_dict()) {
    const Storage& storage = *tensor.as_tensor().storage;
    EXPECT_EQ(storage.source(), source);
    places.emplace_back(storage.size());
    ranges.push_back({storage.source_offset(), places.back()});
  }
  files_.reset();
  source->read(ranges);
  EXPECT_EQ(files_.reads(), 1U) << "so that one call reads them all";
  EXPECT_EQ(as_text(places[2]),
            as_text(value.at("layers.2.weight").as_tensor().contiguous_bytes().view));
}

// There is one read for .metadata and one for each data file, however many pieces tensors are cut
// into.
TEST_F(ReadingCostTest, ADcpFolderOfSeveralRanksTakesAReadOfEachFile) {
  const std::string layouts = testing::kData + "/torch-2.14/dcp-layouts";
  std::size_t data_files = 0;
  for (const auto& file : std::filesystem::directory_iterator(layouts)) {
    data_files += file.path().extension() == ".distcp" ? 1 : 0;
  }
  ASSERT_GT(data_files, 1U);
  const Value read = open_and_read(layouts);
  EXPECT_LE(files_.reads(), 1 + data_files);
  files_.reset();
  const TensorView& row = read.at("row").as_tensor();
  row.contiguous_bytes();
  EXPECT_LE(files_.reads(), 2 * data_files) << "the pieces, and the bytes around them";
}

TEST_F(ReadingCostTest, ATarTakesAReadMoreThanWhatIsInIt) {
  write_file(folder_ / "a.pt.tar", tar_of(encoded(model(3, 4 << 20))));
  open_and_read(folder_ / "a.pt.tar");
  EXPECT_LE(files_.reads(), 4U) << "the ends of both, headers, the pickle";
  EXPECT_LE(files_.bytes(), 2U << 20);
}

TEST_F(ReadingCostTest, ALegacyFileTakesThreeReads) {
  const std::string path = testing::kData + "/torch-2.6/legacy.pt";
  open_and_read(path);
  EXPECT_LE(files_.reads(), 3U);
}

TEST_F(ReadingCostTest, AnIndexedModelTakesOneReadOfEachFileAndOneOfTheIndex) {
  ConvertOptions options;
  options.shard_bytes = 100'000;
  write_file(folder_ / "a.pt", encoded(model(10, 50'000)));
  convert(folder_ / "a.pt", folder_ / "shards", options);
  std::size_t shards = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder_ / "shards")) {
    shards += file.path().extension() == ".safetensors" ? 1 : 0;
  }
  ASSERT_GT(shards, 1U);
  open_and_read(folder_ / "shards");
  EXPECT_LE(files_.reads(), 1 + shards);
  EXPECT_EQ(files_.opened(), 1 + shards) << "the checked bytes are the bytes that are read";
}

// --- Many files ----------------------------------------------------------------------------------

TEST_F(ReadingCostTest, TwoThousandFilesAreReadUnderALimitOf256Descriptors) {
  constexpr std::size_t kFiles = 2000;
  for (std::size_t i = 0; i < kFiles; ++i) {
    const std::string name = "w" + std::to_string(i);
    char path[64];
    std::snprintf(path, sizeof path, "shard-%05zu-model-00001-of-00001.safetensors", i + 1);
    write_file(folder_ / path, safetensors_text(Dict{{name, pattern_tensor(10 + i)}}));
  }
  const testing::DescriptorLimit limit(256);
  const auto source = open_source(folder_.path());
  EXPECT_EQ(source->info().format, "dcp_safetensors");
  const Value read = source->read();
  ASSERT_EQ(read.as_dict().size(), kFiles);
  for (std::size_t i = 0; i < kFiles; ++i) {
    const Value& tensor = read.at("w" + std::to_string(i));
    ASSERT_EQ(tensor, Value(pattern_tensor(10 + i))) << i;
  }
  EXPECT_TRUE(source->verify(Verify::kFull).ok());
}

}  // namespace
}  // namespace cairn
