// A handle returns only verified bytes. The handle verifies each record once, at the latest when
// the record is read.
#include <gmock/gmock.h>

#include <filesystem>
#include <thread>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/convert.h"
#include "cairn/error.h"

#include "checkpoint/open/source.h"
#include "checkpoint/open/verify/verified_source.h"
#include "storage/local/local_store.h"
#include "testing/format_samples.h"
#include "testing/message_of.h"
#include "testing/pattern.h"
#include "testing/recording_source.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::read_file;
using testing::RecordingFiles;
using testing::shared;
using testing::TempFolder;
using testing::write_file;

constexpr std::size_t kTensorBytes = 100'000;

std::string content_of(int tensor) {
  return testing::pattern(2 * kTensorBytes)
      .substr(static_cast<std::size_t>(tensor) * kTensorBytes, kTensorBytes);
}

Value good_and_bad() {
  const auto tensor = [](int number) {
    return make_tensor(DType::kUInt8, {kTensorBytes}, shared(content_of(number)));
  };
  return Dict{{"good", tensor(0)}, {"bad", tensor(1)}, {"step", 7}};
}

// Flips one bit of the tensor "bad" in a file below `path`. Returns whether a file had that tensor.
bool flip_a_bit_of_bad(const std::string& path) {
  std::vector<std::string> files = {path};
  if (std::filesystem::is_directory(path)) {
    files.clear();
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      files.push_back(entry.path().string());
    }
  }
  for (const std::string& file : files) {
    std::string bytes = read_file(file);
    const std::size_t at = bytes.find(content_of(1).substr(0, 64));
    if (at == std::string::npos) continue;
    bytes[at + kTensorBytes / 2] ^= 64;
    write_file(file, bytes);
    return true;
  }
  return false;
}

const TensorView& tensor_in(const Value& value, const char* name) {
  return value.at(name).as_tensor();
}

class VerifiedReadingTest : public ::testing::TestWithParam<testing::WrittenSample> {
 protected:
  VerifiedReadingTest() {
    GetParam().write(good_and_bad(), path_);
    EXPECT_TRUE(flip_a_bit_of_bad(path_));
  }

  TempFolder folder_;
  std::string path_ = folder_ / "checkpoint";
};

TEST_P(VerifiedReadingTest, AFlippedBitOfATensorIsAnErrorOfThatTensorAlone) {
  const auto source = open_source(path_);
  const Value value = source->read();
  EXPECT_EQ(as_text(tensor_in(value, "good").contiguous_bytes().view), content_of(0));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(message_of<CorruptError>([&] { tensor_in(value, "bad").contiguous_bytes(); }),
                HasSubstr("bad"));
  }
  std::vector<std::byte> part(10);
  EXPECT_THROW(tensor_in(value, "bad").storage->read_into(50, part), CorruptError)
      << "far from the bit";
}

TEST_P(VerifiedReadingTest, AQuickLoadIsVerifiedWhenItIsUsed) {
  const Value value = load(path_, {.verify = Verify::kQuick});
  EXPECT_THROW(tensor_in(value, "bad").contiguous_bytes(), CorruptError);
  EXPECT_THROW(save(value, folder_ / "out.pt"), CorruptError);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out.pt"));
  EXPECT_THROW(load(path_), CorruptError);
}

TEST_P(VerifiedReadingTest, NothingIsMadeOfItByAQuickConversion) {
  for (const char* out : {"out.pt", "out.safetensors", "out/"}) {
    EXPECT_THROW(convert(path_, folder_ / out, {.verify = Verify::kQuick}), CorruptError);
    EXPECT_FALSE(std::filesystem::exists(folder_ / out)) << out;
  }
}

TEST_P(VerifiedReadingTest, RawBytesAreGivenByThatNameAlone) {
  const Value value = load(path_, {.raw = true});
  std::string bad = content_of(1);
  bad[kTensorBytes / 2] ^= 64;
  EXPECT_EQ(as_text(tensor_in(value, "bad").contiguous_bytes().view), bad);
  EXPECT_THROW(load(open_checkpoint(path_), {.raw = true}), UsageError);
  convert(path_, folder_ / "out.pt", {.raw = true});
  EXPECT_EQ(as_text(tensor_in(load(folder_ / "out.pt"), "bad").contiguous_bytes().view), bad);
}

INSTANTIATE_TEST_SUITE_P(EveryFormat, VerifiedReadingTest,
                         ::testing::ValuesIn(testing::written_samples()),
                         [](const auto& tested) { return std::string(tested.param.name); });

// A compressed file has a checksum over all of its bytes.
TEST(VerifiedReadingOfCompressedTest, AFlippedBitOfACompressedFileIsFoundByOpeningIt) {
  const TempFolder folder;
  for (const char* name : {"x.pt.gz", "x.pt.xz", "x.pt.zst", "x.pt.lz4", "x.pt.bz2"}) {
    save(good_and_bad(), folder / name);
    std::string bytes = read_file(folder / name);
    bytes[bytes.size() / 2] ^= 64;
    write_file(folder / name, bytes);
    EXPECT_THROW(open_source(folder / name), CorruptError) << name;
  }
}

TEST(VerifiedReadingOfHeadersTest, AHeaderThatSaysSomethingElseIsNotBelieved) {
  const TempFolder folder;
  save(good_and_bad(), folder / "x.pt");
  convert(folder / "x.pt", folder / "x.safetensors");
  std::string bytes = read_file(folder / "x.safetensors");
  bytes[bytes.find("\"good\"") + 1] = 'f';
  write_file(folder / "x.safetensors", bytes);
  EXPECT_THROW(open_source(folder / "x.safetensors")->read(), CorruptError);
  EXPECT_NE(load(folder / "x.safetensors", {.raw = true}).find("food"), nullptr);
}

// --- Cost ----------------------------------------------------------------------------------------

class VerifiedCostTest : public ::testing::Test {
 protected:
  // The storage "good" of a newly opened file. Bytes that opening read ahead are not counted.
  std::shared_ptr<const Storage> open_good(Verify how) {
    save(good_and_bad(), folder_ / "x.pt");
    const Value value = load(folder_ / "x.pt", {.verify = how, .store = local_store(files_)});
    return tensor_in(value, "good").storage;
  }
  // How often the most frequently read byte was read.
  std::uint64_t times(const Storage& storage) const {
    const std::uint64_t begin = storage.source_offset();
    return files_.opened.back()->times(begin, begin + storage.size()).second;
  }

  TempFolder folder_;
  RecordingFiles files_{posix_file_system()};
};

TEST_F(VerifiedCostTest, ATensorIsVerifiedInThePassThatReadsIt) {
  const auto storage = open_good(Verify::kQuick);
  files_.opened.back()->forget();
  std::vector<std::byte> place(storage->size());
  storage->read_into(0, place);
  EXPECT_EQ(times(*storage), 1);
  storage->read_into(0, place);
  EXPECT_EQ(times(*storage), 2) << "as any read";
}

TEST_F(VerifiedCostTest, ManySmallReadsVerifyATensorOnce) {
  const auto storage = open_good(Verify::kQuick);
  files_.opened.back()->forget();
  std::vector<std::byte> place(100);
  for (std::size_t at = 0; at < kTensorBytes; at += place.size()) {
    storage->read_into(at, place);
  }
  EXPECT_LE(times(*storage), 2) << "for its checksum, and for the place";
}

TEST_F(VerifiedCostTest, WhatALoadVerifiedIsNotVerifiedAgain) {
  const auto storage = open_good(Verify::kFull);
  files_.opened.back()->forget();
  std::vector<std::byte> place(100);
  storage->read_into(0, place);
  const std::uint64_t begin = storage->source_offset();
  EXPECT_EQ(files_.opened.back()->times(begin + 200, begin + kTensorBytes).second, 0);
}

// --- The mechanism -------------------------------------------------------------------------------

struct TwoRecords {
  const std::string content = testing::pattern(3000);
  const std::vector<FileRecord> records = {{.name = "a", .offset = 100, .size = 1000},
                                           {.name = "b", .offset = 1500, .size = 900}};
  std::atomic<int> checks = 0;
  std::function<bool(const FileRecord&)> is_bad = [](const FileRecord&) { return false; };
  const VerifiedSource source{
      testing::source_with(content),
      [this](const CheckedRead& read, const std::vector<FileRecord>& some, VerifyReport& report) {
        ++checks;
        crcs_of(read, some);
        for (const FileRecord& record : some) {
          if (is_bad(record)) report.damage.push_back({.what = "bad", .begin = record.offset});
        }
      }};

  TwoRecords() { source.add(records); }
  std::string read(std::uint64_t offset, std::size_t size) const {
    std::string bytes(size, '\0');
    const ByteSource::Range range{offset, std::as_writable_bytes(std::span(bytes))};
    source.read({&range, 1});
    return bytes;
  }
};

TEST(VerifiedSourceTest, ReadsOfAnyRangeGiveTheBytesAndVerifyWhatTheyTouch) {
  for (const auto& [begin, size, checks] :
       std::vector<std::tuple<std::size_t, std::size_t, int>>{{0, 100, 0},
                                                              {1100, 400, 0},
                                                              {2400, 600, 0},
                                                              {0, 101, 1},
                                                              {500, 1, 1},
                                                              {1099, 402, 1},
                                                              {0, 3000, 1},
                                                              {1499, 3, 1}}) {
    const TwoRecords two;
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(two.read(begin, size), two.content.substr(begin, size)) << begin;
      EXPECT_EQ(two.checks, checks) << begin;
    }
    EXPECT_EQ(as_text(two.source.view(begin, size).view), two.content.substr(begin, size));
  }
}

TEST(VerifiedSourceTest, SeveralRangesInAnyOrderGetTheirBytes) {
  const TwoRecords two;
  std::string bytes(600, '\0');
  const auto place = std::as_writable_bytes(std::span(bytes));
  const std::vector<ByteSource::Range> ranges = {
      {2000, place.subspan(0, 200)}, {0, place.subspan(200, 200)}, {150, place.subspan(400, 200)}};
  two.source.read(ranges);
  EXPECT_EQ(bytes, two.content.substr(2000, 200) + two.content.substr(0, 200) +
                       two.content.substr(150, 200));
  EXPECT_EQ(two.checks, 1);
}

TEST(VerifiedSourceTest, DamageIsAnErrorEachTimeAndLookedForOnce) {
  TwoRecords two;
  two.is_bad = [](const FileRecord& record) { return record.offset == 1500; };
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(two.read(1600, 10), CorruptError);
  }
  EXPECT_EQ(two.checks, 1);
  EXPECT_EQ(two.read(100, 1000), two.content.substr(100, 1000));
  VerifyReport report;
  two.is_bad = [](const FileRecord&) { return false; };
  two.source.check({.file = two.source.under()}, two.records, report);
  EXPECT_EQ(two.read(1600, 10), two.content.substr(1600, 10)) << "it was verified anew";
}

TEST(VerifiedSourceTest, AReadThatFailsLeavesTheRecordToBeVerified) {
  TwoRecords two;
  bool is_cut_off = true;
  two.is_bad = [&](const FileRecord&) -> bool {
    if (is_cut_off) throw StorageError("the network is gone", 5);
    return false;
  };
  EXPECT_THROW(two.read(200, 10), StorageError);
  is_cut_off = false;
  EXPECT_EQ(two.read(200, 10), two.content.substr(200, 10));
}

TEST(VerifiedSourceTest, ThreadsThatNeedOneRecordVerifyItOnce) {
  const TwoRecords two;
  std::vector<std::jthread> threads;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const auto at = static_cast<std::size_t>(150 + i * 10);
      if (two.read(at, 10) != two.content.substr(at, 10)) ++wrong;
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(two.checks, 1);
}

TEST(VerifiedSourceTest, ItIsInMemoryOnceAllOfItIsVerified) {
  const TwoRecords two;
  EXPECT_TRUE(two.source.under().in_memory());
  EXPECT_FALSE(two.source.in_memory());
  two.read(0, 3000);
  EXPECT_TRUE(two.source.in_memory());
}

}  // namespace
}  // namespace cairn
