// Checkpoint::read() for every format: each byte is read once, and the bytes that are checked are
// the bytes that read() puts into memory.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <mutex>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"

#include "checkpoint/open/checkpoint.h"
#include "checkpoint/open/read_storages.h"
#include "checkpoint/open/verify/check_records.h"
#include "checkpoint/plan/write_dcp.h"
#include "storage/local/local_store.h"
#include "testing/format_samples.h"
#include "testing/pattern.h"
#include "testing/recording_source.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"

namespace cairn {
namespace {

using testing::kData;
using testing::read_file;
using testing::RecordingFiles;
using testing::shared;
using testing::TempFolder;
using testing::write_file;
using testing::written_samples;
using testing::WrittenSample;

constexpr std::int64_t kRows = 160;
constexpr std::int64_t kColumns = 600;
constexpr std::int64_t kTensors = 4;

// The bytes of one tensor. Each tensor is a part of one sequence of bytes without repetition, so
// all tensors differ.
std::string pattern_number(std::int64_t number) {
  constexpr std::size_t kBytes = kRows * kColumns * 4;
  return testing::pattern(kTensors * kBytes)
      .substr(static_cast<std::size_t>(number) * kBytes, kBytes);
}

std::string pattern_name(std::int64_t number) { return "w" + std::to_string(number); }

Value patterned_model() {
  Dict dict;
  for (std::int64_t i = 0; i < kTensors; ++i) {
    dict.set(pattern_name(i),
             make_tensor(DType::kFloat32, {kRows, kColumns}, shared(pattern_number(i))));
  }
  return dict;
}

// The state of one of two ranks: rows of some tensors, columns of every second one.
Value patterned_part(int rank) {
  Dict dict;
  for (std::int64_t i = 0; i < kTensors; ++i) {
    const bool is_cut_by_rows = i % 2 == 0;
    const std::int64_t rows = is_cut_by_rows ? kRows / 2 : kRows;
    const std::int64_t columns = is_cut_by_rows ? kColumns : kColumns / 2;
    TensorView part = make_tensor(DType::kFloat32, {kRows, kColumns}, shared(pattern_number(i)));
    part.shape = {rows, columns};
    part.storage_offset = rank == 0 ? 0 : is_cut_by_rows ? rows * kColumns : columns;
    part.part = std::make_shared<const TensorPart>(TensorPart{
        .global_shape = {kRows, kColumns},
        .offsets = {is_cut_by_rows ? rank * rows : 0, is_cut_by_rows ? 0 : rank * columns}});
    dict.set(pattern_name(i), part);
  }
  return dict;
}

void write_ranks(const std::string& folder) {
  std::filesystem::create_directories(folder);
  for (int rank = 0; rank < 2; ++rank) {
    const TempFolder alone;
    write_dcp(*local_store(), patterned_part(rank), alone / "dcp");
    const std::string name = "__" + std::to_string(rank) + "_0.distcp";
    std::string metadata = read_file(alone / "dcp/.metadata");
    for (std::size_t at = 0; (at = metadata.find("__0_0.distcp", at)) != std::string::npos; ++at) {
      metadata.replace(at, name.size(), name);
    }
    write_file(folder + "/__" + std::to_string(rank) + ".metadata", metadata);
    write_file(folder + "/" + name, read_file(alone / "dcp/__0_0.distcp"));
  }
}

// The samples of every format, and the folder that ranks of PyTorch write together.
std::vector<WrittenSample> one_pass_samples() {
  std::vector<WrittenSample> all(written_samples().begin(), written_samples().end());
  all.push_back({"dcp_of_ranks", [](const Value&, const std::string& path) { write_ranks(path); },
                 /*files_per_tensor=*/2});
  return all;
}

class OnePassTest : public ::testing::TestWithParam<WrittenSample> {
 protected:
  OnePassTest() { GetParam().write(patterned_model(), path_); }

  // Opens the checkpoint, and reads all tensors into memory_.
  VerifyReport read() {
    const Checkpoint opened = open_checkpoint(path_, local_store(files_));
    return opened.read(reads_of(opened));
  }

  // Reads in two parts, as loading in place does: every second tensor, then the rest. Returns the
  // report of the first damaged part.
  VerifyReport read_in_parts() {
    const Checkpoint opened = open_checkpoint(path_, local_store(files_));
    std::vector<StorageRead> reads = reads_of(opened);
    for (int part = 0; part < 2; ++part) {
      std::vector<StorageRead> some;
      for (std::size_t i = static_cast<std::size_t>(part); i < reads.size(); i += 2) {
        some.push_back(reads[i]);
      }
      const VerifyReport report = opened.read(some, Verify::kWhatIsRead);
      if (part == 1 || !report.ok()) return report;
    }
    return {};
  }

  std::vector<StorageRead> reads_of(const Checkpoint& opened) {
    const Value value = load(opened, {.verify = Verify::kQuick});
    std::vector<StorageRead> reads;
    memory_.clear();
    for (std::int64_t i = 0; i < kTensors; ++i) {
      const auto storage = value.at(pattern_name(i)).as_tensor().storage;
      memory_.emplace_back(storage->size());
      reads.push_back({storage, memory_.back()});
    }
    for (const auto& source : files_.opened) {
      source->forget();  // Forgets the reads of the ends of files, which opening reads generously.
    }
    return reads;
  }

  void expect_one_pass(const VerifyReport& report, std::uint64_t parts) {
    EXPECT_TRUE(report.ok()) << report.summary();
    EXPECT_TRUE(report.has_checksums);
    for (std::int64_t i = 0; i < kTensors; ++i) {
      EXPECT_EQ(as_text(memory_[static_cast<std::size_t>(i)]), pattern_number(i)) << i;
    }
    std::uint64_t all = 0;
    std::uint64_t more = 0;
    for (const auto& source : files_.opened) {
      for (const int count : source->counts(0, source->size())) {
        all += count > 0 ? 1 : 0;
        more += count > 1 ? 1 : 0;
      }
    }
    // Less than all bytes, because the end of a small zip was read when the file was opened.
    EXPECT_GE(all, kTensors * pattern_number(0).size() / 2);
    // These bytes may be read twice: headers of files, the bytes around each tensor of a folder,
    // and some KiB of a file's end.
    constexpr std::uint64_t kHeadBytes = 4096;
    EXPECT_LE(more, (GetParam().files_per_tensor * kTensors + parts) * kHeadBytes);
  }

  // Damages the first and the last bytes of each tensor, one at a time.
  void expect_bad_bytes_found(const std::function<VerifyReport()>& read_all);

  std::vector<std::string> data_files() const {
    if (!std::filesystem::is_directory(path_)) return {path_};
    std::vector<std::string> files;
    for (const auto& file : std::filesystem::directory_iterator(path_)) {
      files.push_back(file.path().string());
    }
    return files;
  }

  TempFolder folder_;
  std::string path_ = folder_ / "checkpoint";
  RecordingFiles files_{posix_file_system()};
  std::int64_t found_ = 0;
  std::vector<std::vector<std::byte>> memory_;
};

TEST_P(OnePassTest, EveryByteIsReadOnceAndChecked) { expect_one_pass(read(), 1); }

TEST_P(OnePassTest, InPartsEveryByteIsReadOnceToo) { expect_one_pass(read_in_parts(), 2); }

void OnePassTest::expect_bad_bytes_found(const std::function<VerifyReport()>& read_all) {
  for (const std::string& file : data_files()) {
    const std::string good = read_file(file);
    for (std::int64_t i = 0; i < kTensors; ++i) {
      const std::string content = pattern_number(i);
      for (const std::size_t begin : {std::size_t{0}, content.size() - 32}) {
        const std::size_t at = good.find(content.substr(begin, 32));
        if (at == std::string::npos) continue;
        std::string bad = good;
        bad[at + 31] ^= 1;
        write_file(file, bad);
        const VerifyReport report = read_all();
        ASSERT_FALSE(report.ok()) << file << ", " << pattern_name(i);
        const bool is_named =
            std::any_of(report.damage.begin(), report.damage.end(), [&](const Damage& damage) {
              return damage.tensors == std::vector<std::string>{pattern_name(i)};
            });
        EXPECT_TRUE(is_named) << report.summary();
        ++found_;
      }
    }
    write_file(file, good);
  }
  EXPECT_EQ(found_, 2 * kTensors);
  EXPECT_TRUE(read_all().ok());
}

TEST_P(OnePassTest, ABadByteInAnyTensorIsFound) {
  expect_bad_bytes_found([this] { return read(); });
}

TEST_P(OnePassTest, ABadByteInAnyTensorIsFoundInParts) {
  expect_bad_bytes_found([this] { return read_in_parts(); });
}

INSTANTIATE_TEST_SUITE_P(Formats, OnePassTest, ::testing::ValuesIn(one_pass_samples()),
                         [](const auto& tested) { return std::string(tested.param.name); });

// DeepSpeed's files here are small: opening a file reads all of it.
TEST(OnePassOfDeepSpeedTest, TensorsOfSeveralRanksAreReadOnceAndChecked) {
  for (const char* stage : {"stage1", "stage2", "stage3", "bf16"}) {
    RecordingFiles files(posix_file_system());
    const Checkpoint opened = open_checkpoint(kData + "/deepspeed/" + stage, local_store(files));
    const Value value = load(opened, {.verify = Verify::kQuick});
    std::vector<std::vector<std::byte>> memory;
    std::vector<StorageRead> reads;
    for (const auto& [path, tensor] : tensors_of(value)) {
      const bool is_known = std::any_of(reads.begin(), reads.end(), [&](const StorageRead& read) {
        return read.storage == tensor->storage;
      });
      if (is_known || tensor->storage == nullptr) continue;
      memory.emplace_back(tensor->storage->size());
      reads.push_back({tensor->storage, memory.back()});
    }
    for (const auto& source : files.opened) {
      source->forget();
    }
    ASSERT_TRUE(opened.read(reads).ok());
    for (const auto& source : files.opened) {
      EXPECT_LE(source->times(0, source->size()).second, 1) << stage << ", " << source->name();
    }
    for (std::size_t i = 0; i < reads.size(); ++i) {
      EXPECT_EQ(as_text(memory[i]), as_text(reads[i].storage->bytes().view)) << stage;
    }
  }
}

TEST(OnePassOfLegacyTest, WhatHasNoChecksumsIsReadOnce) {
  RecordingFiles files(posix_file_system());
  const Checkpoint opened = open_checkpoint(kData + "/torch-2.6/legacy.pt", local_store(files));
  const Value value = load(opened, {.verify = Verify::kQuick});
  std::vector<std::vector<std::byte>> memory;
  std::vector<StorageRead> reads;
  for (const auto& [path, tensor] : tensors_of(value)) {
    if (tensor->storage == nullptr) continue;
    memory.emplace_back(tensor->storage->size());
    reads.push_back({tensor->storage, memory.back()});
  }
  ASSERT_GT(reads.size(), 1U);
  const VerifyReport report = opened.read(reads);
  EXPECT_TRUE(report.ok());
  EXPECT_FALSE(report.has_checksums);
  for (std::size_t i = 0; i < reads.size(); ++i) {
    EXPECT_EQ(as_text(memory[i]), as_text(reads[i].storage->bytes().view));
  }
}

// --- The mechanism -------------------------------------------------------------------------------

// Reads of ranges that begin and end anywhere: inside records, across records, between records.
TEST(CheckedReadTest, PlacesAnywhereAreFilledAndEveryByteCounts) {
  const std::string content = testing::pattern(5000);
  const auto file = testing::source_with(content);
  const std::vector<FileRecord> records = {{.name = "b", .offset = 1000, .size = 500},
                                           {.name = "a", .offset = 100, .size = 800},
                                           {.name = "c", .offset = 1500, .size = 0},
                                           {.name = "d", .offset = 1500, .size = 3000},
                                           {.name = "in d", .offset = 2000, .size = 10}};
  const testing::RecordingSource far(file);
  const std::vector<std::uint32_t> crcs = crcs_of({.file = far}, records);
  for (std::uint64_t begin = 0; begin < 4800; begin += 83) {
    for (const std::uint64_t size : {1, 30, 200, 1700}) {
      std::string text(5000, '\0');
      std::vector<ByteSource::Range> places;
      for (std::uint64_t at = begin; at + size <= content.size() && places.size() < 5;
           at += size + 40) {
        places.push_back({at, std::as_writable_bytes(std::span(text)).subspan(at, size)});
      }
      far.forget();
      ASSERT_EQ(crcs_of({.file = far, .places = places}, records), crcs);
      for (const auto& [at, into] : places) {
        ASSERT_EQ(as_text(into), content.substr(at, into.size())) << at;
        // Record "in d" is the exception.
        ASSERT_LE(far.times(at, std::min(at + into.size(),
                                         at < 2010 ? std::max<std::uint64_t>(at + 1, 2000)
                                                   : content.size()))
                      .second,
                  1);
      }
    }
  }
}

TEST(PendingReadsTest, WhatIsWantedTwiceIsReadOnce) {
  const std::string content = testing::pattern(1000);
  const auto file = std::make_shared<const testing::RecordingSource>(testing::source_with(content));
  std::vector<StorageRead> reads;
  std::vector<std::vector<std::byte>> memory;
  for (const auto& [begin, size] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {100, 300}, {0, 1000}, {100, 300}, {50, 100}, {390, 200}, {999, 1}, {0, 1}}) {
    memory.emplace_back(size);
    reads.push_back({storage_of(file, begin, size), memory.back()});
  }
  read_storages(reads);
  for (const StorageRead& read : reads) {
    EXPECT_EQ(as_text(read.into), content.substr(read.storage->source_offset(), read.into.size()));
  }
  EXPECT_EQ(file->times(0, 1000), std::pair(1, 1));
}

// --- Places outside the host's memory ------------------------------------------------------------

// A range of addresses that must not be touched, and the bytes that a read put there.
class Elsewhere {
 public:
  explicit Elsewhere(std::size_t bytes)
      : place_(static_cast<std::byte*>(
            mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))),
        text_(bytes, '\0') {}
  ~Elsewhere() { munmap(place_, text_.size()); }
  Elsewhere(const Elsewhere&) = delete;
  Elsewhere& operator=(const Elsewhere&) = delete;

  std::span<std::byte> place(std::size_t begin, std::size_t size) const {
    return std::span(place_, text_.size()).subspan(begin, size);
  }
  std::string text(std::size_t begin, std::size_t size) const { return text_.substr(begin, size); }
  PutBytes put() {
    const auto write = [this](std::span<std::byte> into, ByteView bytes) {
      const std::lock_guard lock(mutex_);
      ASSERT_EQ(into.size(), bytes.size());
      text_.replace(static_cast<std::size_t>(into.data() - place_), into.size(), as_text(bytes));
    };
    const auto is_here = [this](const std::byte* place) {
      return place >= place_ && place < place_ + text_.size();
    };
    return {.is_elsewhere = is_here, .put = write};
  }

 private:
  std::byte* const place_;
  std::string text_;
  std::mutex mutex_;
};

// This also holds for a storage that is wanted twice.
TEST(ReadElsewhereTest, BytesArePutWhereTheyBelongAndChecked) {
  const TempFolder folder;
  const std::string path = folder / "a.pt";
  save(patterned_model(), path);
  const std::string good = read_file(path);
  const std::size_t size = pattern_number(0).size();
  for (const Verify how : {Verify::kQuick, Verify::kWhatIsRead, Verify::kFull}) {
    RecordingFiles files(posix_file_system());
    const Checkpoint opened = open_checkpoint(path, local_store(files));
    const Value value = load(opened, {.verify = Verify::kQuick});
    for (const auto& source : files.opened) {
      source->forget();
    }
    Elsewhere there(5 * size);
    std::vector<StorageRead> reads;
    for (const std::size_t i : {0, 1, 2, 3, 1}) {
      const auto storage = value.at(pattern_name(static_cast<std::int64_t>(i))).as_tensor().storage;
      reads.push_back({storage, there.place(reads.size() * size, size)});
    }
    ASSERT_TRUE(read_elsewhere(opened, reads, how, there.put()).ok());
    for (const std::size_t i : {0, 1, 2, 3}) {
      EXPECT_EQ(there.text(i * size, size), pattern_number(static_cast<std::int64_t>(i))) << i;
    }
    EXPECT_EQ(there.text(4 * size, size), pattern_number(1));
    const std::uint64_t first = reads[0].storage->source_offset();
    EXPECT_LE(files.opened.back()->times(first, first + size).second, 1);
    reads.front().into = reads.front().into.first(size - 1);
    EXPECT_THROW(read_elsewhere(opened, reads, how, there.put()), UsageError);
  }
  std::string bad = good;
  bad[good.find(pattern_number(2).substr(0, 32)) + 31] ^= 1;
  write_file(path, bad);
  const Checkpoint opened = open_checkpoint(path);
  const Value value = load(opened, {.verify = Verify::kQuick});
  for (const std::int64_t i : {1, 2}) {
    Elsewhere there(size);
    const auto storage = value.at(pattern_name(i)).as_tensor().storage;
    const VerifyReport report =
        read_elsewhere(opened, {{storage, there.place(0, size)}}, Verify::kWhatIsRead, there.put());
    EXPECT_EQ(report.ok(), i == 1) << report.summary();
  }
}

// Destinations in the host's memory are filled as usual: a storage that is wanted twice is read
// once and copied.
TEST(ReadElsewhereTest, PlacesOfTheHostAreMemoryBesideThem) {
  const std::string content = testing::pattern(3000);
  const auto file = std::make_shared<const testing::RecordingSource>(testing::source_with(content));
  Elsewhere there(2000);
  std::string first(1000, '\0');
  std::string again(1000, '\0');
  const auto place_in = [](std::string& text) { return std::as_writable_bytes(std::span(text)); };
  const std::vector<StorageRead> reads = {{storage_of(file, 0, 1000), place_in(first)},
                                          {storage_of(file, 0, 1000), place_in(again)},
                                          {storage_of(file, 1000, 2000), there.place(0, 2000)}};
  PendingReads pending(reads, nullptr, there.put());
  pending.finish();
  EXPECT_EQ(first, content.substr(0, 1000));
  EXPECT_EQ(again, first);
  EXPECT_EQ(there.text(0, 2000), content.substr(1000));
  EXPECT_EQ(file->times(0, 3000), std::pair(1, 1));
}

// If headers were read alone, each would be a read of the disk, because the reads of the tensors
// bypassed the page cache.
TEST(ReadElsewhereTest, HeadersComeWithTheTensorsAndAreChecked) {
  const TempFolder folder;
  constexpr std::size_t kMany = 2000;
  constexpr std::size_t kBytes = 4000;
  const std::string content = testing::pattern(kMany * kBytes);
  Dict dict;
  for (std::size_t i = 0; i < kMany; ++i) {
    dict.set("w" + std::to_string(i), make_tensor(DType::kFloat32, {kBytes / 4},
                                                  shared(content.substr(i * kBytes, kBytes))));
  }
  save(dict, folder / "a.pt");
  const std::string good = read_file(folder / "a.pt");
  std::uint64_t header = 0;
  for (const bool is_good : {true, false}) {
    std::string bytes = good;
    if (!is_good) bytes[header] ^= 1;
    write_file(folder / "a.pt", bytes);
    RecordingFiles files(posix_file_system());
    const Checkpoint opened = open_checkpoint(folder / "a.pt", local_store(files));
    const Value value = load(opened, {.verify = Verify::kQuick});
    files.opened.back()->forget();
    Elsewhere there(content.size());
    std::vector<StorageRead> reads;
    for (std::size_t i = 0; i < kMany; ++i) {
      const auto storage = value.at("w" + std::to_string(i)).as_tensor().storage;
      reads.push_back({storage, there.place(i * kBytes, kBytes)});
    }
    header = reads[1000].storage->source_offset() - 1;
    EXPECT_EQ(read_elsewhere(opened, reads, Verify::kFull, there.put()).ok(), is_good);
    EXPECT_TRUE(there.text(0, content.size()) == content);
    EXPECT_EQ(files.opened.back()->times(0, header).second, 1);
  }
}

TEST(ReadElsewhereTest, WhatPutThrowsEndsIt) {
  const TempFolder folder;
  save(patterned_model(), folder / "a.pt");
  const Checkpoint opened = open_checkpoint(folder / "a.pt");
  const Value value = load(opened, {.verify = Verify::kQuick});
  const auto storage = value.at(pattern_name(0)).as_tensor().storage;
  Elsewhere there(storage->size());
  PutBytes refuse = there.put();
  refuse.put = [](std::span<std::byte>, ByteView) { throw std::runtime_error("full"); };
  EXPECT_THROW(read_elsewhere(opened, {{storage, there.place(0, storage->size())}},
                              Verify::kWhatIsRead, refuse),
               std::runtime_error);
}

// Reads of ranges outside all records, and of records inside other records.
TEST(ReadElsewhereTest, PlacesAnywhereGetTheirBytes) {
  const std::string content = testing::pattern(5000);
  const auto file = testing::source_with(content);
  const std::vector<FileRecord> records = {{.name = "a", .offset = 1000, .size = 800},
                                           {.name = "b", .offset = 1800, .size = 1200},
                                           {.name = "in b", .offset = 2000, .size = 10}};
  const std::vector<std::uint32_t> crcs = crcs_of({.file = *file}, records);
  Elsewhere there(5000);
  std::vector<ByteSource::Range> places;
  for (const std::size_t begin : {0, 900, 1700, 2100, 2900, 3500}) {
    places.push_back({begin, there.place(begin, 200)});
  }
  ASSERT_EQ(crcs_of({.file = *file, .places = places, .put = there.put()}, records), crcs);
  for (const auto& [begin, into] : places) {
    EXPECT_EQ(there.text(begin, 200), content.substr(begin, 200)) << begin;
  }

  const auto made = storage_of(100, [] { return shared(std::string(100, 'x')); });
  Elsewhere other(100);
  PendingReads pending({{made, other.place(0, 100)}}, nullptr, other.put());
  EXPECT_TRUE(pending.has_storages_to_make());
  pending.finish();
  EXPECT_EQ(other.text(0, 100), std::string(100, 'x'));
}

}  // namespace
}  // namespace cairn
