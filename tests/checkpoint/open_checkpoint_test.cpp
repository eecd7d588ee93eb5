// A Checkpoint stays the file that was opened, whatever happens to the file and its name.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/convert.h"
#include "cairn/error.h"

#include "testing/message_of.h"
#include "testing/sample_checkpoint.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::read_file;
using testing::sample_checkpoint;
using testing::sample_info;
using testing::TempFolder;

class OpenCheckpointTest : public ::testing::Test {
 protected:
  void save_sample(std::int64_t batch, const std::string& name) {
    save(sample_checkpoint(batch), folder_ / name, {.info = sample_info(batch)});
  }
  // Writes into the existing file.
  void overwrite(const std::string& path, const std::string& bytes) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file << bytes << std::flush;
    ASSERT_TRUE(file.good());
  }

  TempFolder folder_;
};

TEST_F(OpenCheckpointTest, SaysWhatItIs) {
  save_sample(7, "a.pt");
  const Checkpoint opened = open_checkpoint(folder_ / "a.pt");
  EXPECT_EQ(opened.path(), folder_ / "a.pt");
  EXPECT_EQ(opened.info().kind, "full");
  EXPECT_EQ(opened.info().timestamp->batch, 7);
  EXPECT_TRUE(opened.verify().ok());
  EXPECT_EQ(load(opened), sample_checkpoint(7));
}

TEST_F(OpenCheckpointTest, StaysTheFileWhenAnotherTakesItsName) {
  save_sample(7, "a.pt");
  const Checkpoint opened = open_checkpoint(folder_ / "a.pt");
  save_sample(8, "a.pt");
  EXPECT_EQ(opened.info().timestamp->batch, 7);
  EXPECT_EQ(load(opened), sample_checkpoint(7));
  EXPECT_EQ(load(folder_ / "a.pt"), sample_checkpoint(8));
  std::filesystem::remove(folder_ / "a.pt");
  EXPECT_EQ(load(opened), sample_checkpoint(7));
}

TEST_F(OpenCheckpointTest, WhatWasFoundIsWhatWasVerified) {
  save_sample(7, "ep0-ba7-rank0.pt");
  const auto found = find_latest(folder_.path());
  ASSERT_TRUE(found);
  testing::write_file(folder_ / "damaged", "PK\x03\x04 no checkpoint");
  std::filesystem::rename(folder_ / "damaged", found->path);
  EXPECT_EQ(load(found->checkpoint), sample_checkpoint(7));
}

TEST_F(OpenCheckpointTest, AFileThatIsCutOffIsAnError) {
  save_sample(7, "a.pt");
  const Checkpoint opened = open_checkpoint(folder_ / "a.pt");
  ASSERT_TRUE(opened.verify().ok());
  std::filesystem::resize_file(folder_ / "a.pt", 0);
  EXPECT_THAT(message_of<StorageError>([&] { load(opened); }), HasSubstr(opened.path()));
  EXPECT_THROW(opened.verify(), StorageError);
}

TEST_F(OpenCheckpointTest, WhatIsWrittenIntoTheFileIsNotRead) {
  save_sample(7, "a.pt");
  const Checkpoint opened = open_checkpoint(folder_ / "a.pt");
  ASSERT_TRUE(opened.verify().ok());
  std::string bytes = read_file(opened.path());
  for (char& byte : bytes) {
    byte = static_cast<char>(byte ^ 1);
  }
  const auto written = std::filesystem::last_write_time(opened.path());
  overwrite(opened.path(), bytes);
  // The file's time shows the change, or else the checksums show it. The test sets the time,
  // because changes within one tick of the clock have the same time.
  std::filesystem::last_write_time(opened.path(), written + std::chrono::seconds(1));
  EXPECT_THAT(message_of<StorageError>([&] { opened.verify(); }), HasSubstr("written to"));
  EXPECT_THROW(load(opened), StorageError);
  std::filesystem::last_write_time(opened.path(), written);
  EXPECT_FALSE(opened.verify().ok());
  EXPECT_THROW(load(opened), CorruptError);
}

TEST_F(OpenCheckpointTest, UrisAreRefusedByOneMessageWhereverAPlaceCanBeGiven) {
  const std::string uri = "nfs3://bucket/a.pt";
  save_sample(7, "a.pt");
  const auto refused = [](const auto& use) {
    EXPECT_THAT(message_of<UnsupportedError>(use), HasSubstr("no store for nfs3://"));
  };
  refused([&] { save(Dict{}, uri); });
  refused([&] { load(uri); });
  refused([&] { verify(uri); });
  refused([&] { open_checkpoint(uri); });
  refused([&] { find_latest(uri); });
  refused([&] { convert(folder_ / "a.pt", uri, {}); });
  refused([&] { convert(uri, folder_ / "b.pt", {}); });
  EXPECT_FALSE(std::filesystem::exists("nfs3:"));
}

// --- Reading into places -------------------------------------------------------------------------

// The bytes of every storage of a Value, read by Checkpoint::read().
struct Places {
  Places(const Checkpoint& opened, Verify how) {
    const Value value = load(opened, {.verify = Verify::kQuick});
    for (const auto& [path, tensor] : tensors_of(value)) {
      storages.push_back(tensor->storage);
      bytes.emplace_back(tensor->storage->size(), '\xff');
    }
    std::vector<StorageRead> reads;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      reads.push_back({storages[i], std::as_writable_bytes(std::span(bytes[i]))});
    }
    report = opened.read(reads, how);
  }
  std::vector<std::shared_ptr<const Storage>> storages;
  std::vector<std::string> bytes;
  VerifyReport report;
};

Value two_tensors() {
  const auto text = std::make_shared<std::string>();
  for (int i = 0; i < (3 << 20); ++i) {
    text->push_back(static_cast<char>(i * 31 >> 5));
  }
  const ByteView bytes = as_bytes(*text);
  return Dict{
      {"a", make_tensor(DType::kUInt8, {(2 << 20) + 5}, {bytes.first((2 << 20) + 5), text})},
      {"b", make_tensor(DType::kFloat32, {250}, {bytes.subspan(1 << 20, 1000), text})}};
}

TEST_F(OpenCheckpointTest, ReadsIntoPlacesWhatItVerifiesInEveryFormat) {
  save(two_tensors(), folder_ / "x.pt");
  save(two_tensors(), folder_ / "x.pt.gz");
  convert(folder_ / "x.pt", folder_ / "x.safetensors");
  convert(folder_ / "x.pt", folder_ / "x.dcp", {.to = "dcp"});
  for (const char* name : {"x.pt", "x.pt.gz", "x.safetensors", "x.dcp"}) {
    const Checkpoint opened = open_checkpoint(folder_ / name);
    for (const Verify how : {Verify::kFull, Verify::kQuick}) {
      const Places read(opened, how);
      EXPECT_TRUE(read.report.ok()) << name << ": " << read.report.summary();
      ASSERT_EQ(read.bytes.size(), 2U);
      for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_TRUE(read.bytes[i] == as_text(read.storages[i]->bytes().view)) << name << i;
      }
    }
  }
}

TEST_F(OpenCheckpointTest, ABadByteOnItsWayIntoAPlaceIsDamageOfThatTensor) {
  save(two_tensors(), folder_ / "x.pt");
  convert(folder_ / "x.pt", folder_ / "x.safetensors");
  for (const char* name : {"x.pt", "x.safetensors"}) {
    std::string bytes = read_file(folder_ / name);
    const std::size_t inside = bytes.find(std::string(
        as_text(two_tensors().at("a").as_tensor().contiguous_bytes().view.subspan(0, 4096))));
    ASSERT_NE(inside, std::string::npos);
    bytes[inside + (1 << 20)] ^= 4;
    testing::write_file(folder_ / name, bytes);
    const Places read(open_checkpoint(folder_ / name), Verify::kFull);
    ASSERT_EQ(read.report.damage.size(), 1U) << name;
    EXPECT_EQ(read.report.damage[0].tensors, std::vector<std::string>{"a"}) << name;
    EXPECT_TRUE(Places(open_checkpoint(folder_ / name), Verify::kQuick).report.ok());
  }
}

TEST_F(OpenCheckpointTest, APlaceOfAnotherLengthIsRefused) {
  save(two_tensors(), folder_ / "x.pt");
  const Checkpoint opened = open_checkpoint(folder_ / "x.pt");
  const Value value = load(opened);
  std::vector<std::byte> place(999);
  EXPECT_THROW((void)opened.read({{value.at("b").as_tensor().storage, place}}), UsageError);
}

}  // namespace
}  // namespace cairn
